"""`sokovan status` and `sokovan down`, in front of a server of canned answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.entrypoints.embedded.data_folder import DataFolder
from tests.kernels import own_start
from tests.unit.cli.canned_server import CannedServer, Sokovan


@pytest.fixture
def folder(server: CannedServer, tmp_path: Path) -> Iterator[Path]:
    """The data folder of a server whose process is this one."""
    folder = DataFolder(tmp_path / "data")
    about = {"url": server.url, "pid": os.getpid(), "start": own_start(), "started_at_ms": 0, "version": "1.2"}
    folder.write_private("token", "sk-AK.secret")
    with folder.locked():
        folder.write_private("up.json", json.dumps(about))
        yield folder.root


def test_status_of_a_server_that_responds_has_its_counts(sokovan: Sokovan, server: CannedServer, folder: Path) -> None:
    server.says("GET agents", {"items": []})
    server.says("GET sessions", {"items": []})
    code, out, _ = sokovan("status", "--data", str(folder), "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["running"], found["url"], found["version"]) == (True, server.url, "1.2")
    assert (found["agents"], found["sessions"], found["note"]) == ({}, {}, "")
    code, out, _ = sokovan("status", "--data", str(folder))
    assert code == 0
    assert "sessions  none" in out


def test_status_of_a_server_that_does_not_respond_is_7(sokovan: Sokovan, server: CannedServer, folder: Path) -> None:
    server.refuses("GET agents", 401, "unauthenticated")
    code, out, _ = sokovan("status", "--data", str(folder))
    assert code == 7
    assert "does not respond" in out


def test_without_a_server_status_is_3_and_down_has_nothing_to_do(sokovan: Sokovan, tmp_path: Path) -> None:
    code, out, _ = sokovan("status", "--data", str(tmp_path), "--json")
    assert (code, json.loads(out)["running"]) == (3, False)
    code, out, err = sokovan("down", "--data", str(tmp_path))
    assert (code, out) == (0, "")
    assert "not running" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["0", "-1", "nan", "soon"])
def test_a_timeout_is_a_positive_number(sokovan: Sokovan, value: str) -> None:
    code, _, err = sokovan("down", "--timeout", value)
    assert code == 2
    assert "hint:" in err
