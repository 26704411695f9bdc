"""`sokovan config`: what this client goes by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_every_value_has_an_origin(server: CannedServer, sokovan: Sokovan, tmp_path: Path) -> None:
    (tmp_path / ".sokovan.toml").write_text('queue = "research"\n', encoding="utf-8")
    status, out, _ = sokovan("config", "show", "--origin")
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert status == 0
    assert lines["url"] == [server.url, "SOKOVAN_URL"]
    assert lines["queue"] == ["research", str(tmp_path / ".sokovan.toml")]
    assert lines["image"] == ["-", "default"]
    assert "ORIGIN" not in sokovan("config", "show")[1]


@pytest.mark.slow
def test_the_key_is_never_shown(server: CannedServer, sokovan: Sokovan) -> None:
    for form in ("table", "wide", "json", "yaml", "csv", "jsonl"):
        assert "secret" not in sokovan("config", "show", "-o", form)[1]
    found = {one["name"]: one["value"] for one in json.loads(sokovan("config", "show", "--json")[1])}
    assert found["token"] == "(hidden)"  # noqa: S105  # that is the point
    assert server.asked == []


def test_an_unreadable_file_is_an_error(server: CannedServer, sokovan: Sokovan, tmp_path: Path) -> None:
    (tmp_path / ".sokovan.toml").write_text('url = "http://evil"\n', encoding="utf-8")
    status, _, err = sokovan("config", "show")
    assert status == 2
    assert ".sokovan.toml: url is not a string that a project file may set" in err
    assert server.asked == []
