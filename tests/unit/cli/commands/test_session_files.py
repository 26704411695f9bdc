"""`cp` and `session files` on the command line."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sokovan.cli.commands.session_files import remote_path
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import KERNEL, session

UNTIL = "2030-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("s:a/b", ("s", "a/b")), ("s:", ("s", "")), ("a/b:c", None), ("./s:a", None), (":a", None), ("a", None)],
)
def test_a_session_is_named_before_the_first_colon(text: str, expected: tuple[str, str] | None) -> None:
    assert remote_path(text) == expected


def page(*paths: str, index: int = 0, **more: Any) -> dict[str, Any]:
    """A page of files of a kernel."""
    items = [{"kernel": index, "path": path, "size": 3, "modified_at": UNTIL, "kept_until": UNTIL} for path in paths]
    return {"items": items, "is_folder": True, "bytes_max": 1000, **more}


def test_output_is_listed_with_its_time_and_quota(server: CannedServer, sokovan: Sokovan) -> None:
    view = session()
    server.says("GET sessions/ddp", view)
    kept = {"session_bytes_max": 1 << 30, "owner_bytes": 1 << 20, "owner_bytes_max": 2 << 30, "kept_until": UNTIL}
    dropped = {"dropped_files": 2, "dropped_bytes": 2048}
    server.says(f"GET sessions/{view.id}/kernels/0/files", page("output/a", output={**kept, **dropped}))
    status, out, err = sokovan("session", "files", "ddp")
    assert status == 0
    assert out.splitlines()[0].split() == ["PATH", "SIZE", "MODIFIED"]
    assert "output/a" in out
    assert f"kept until {UNTIL}; limit of a session 1GiB, its owner uses 1MiB of 2GiB" in err
    assert "2 older files, 2KiB, were not kept" in err
    [found] = json.loads(sokovan("session", "files", "ddp", "--json")[1])
    assert (found["path"], found["kept_until"]) == ("output/a", UNTIL)


def test_a_kernel_without_output_does_not_hide_the_others(server: CannedServer, sokovan: Sokovan) -> None:
    view = session(size=2, kernels=[KERNEL, replace(KERNEL, index=1)])
    server.says("GET sessions/ddp", view)
    server.refuses(f"GET sessions/{view.id}/kernels/0/files", 404, "file-not-found")
    server.says(f"GET sessions/{view.id}/kernels/1/files", page("output/b", index=1))
    status, out, err = sokovan("session", "files", "ddp")
    assert (status, out.splitlines()[1].split()[:2]) == (0, ["1", "output/b"])
    assert "about file-not-found" in err
    assert sokovan("session", "files", "ddp", "data", "--kernel", "0")[0] == 3


def test_a_file_is_copied_out(server: CannedServer, sokovan: Sokovan, tmp_path: Path) -> None:
    found = page("m.pt", index=2, left_out=1, left_out_names=["'link' (a link)"])
    server.says("GET sessions/ddp/kernels/2/files", {**found, "is_folder": False})
    chunk = {"offset": 0, "data": base64.b64encode(b"abc").decode(), "size": 3, "mark": "m"}
    server.says("GET sessions/ddp/kernels/2/files/content", chunk)
    status, out, err = sokovan("cp", "--kernel", "2", "ddp:m.pt", ".")
    assert (status, out) == (0, "")
    assert (tmp_path / "m.pt").read_bytes() == b"abc"
    assert "copied ddp:m.pt to m.pt: 1 file, 3B" in err
    assert "1 were left out" in err


@pytest.mark.parametrize(
    "words", [("a", "b"), ("s:a", "t:b"), ("./s:a", "b"), ("--kernel=-1", "s:a", "b"), ("missing", "s:b")]
)
def test_a_copy_that_makes_no_sense_is_a_usage_error(
    server: CannedServer, sokovan: Sokovan, words: tuple[str, ...]
) -> None:
    status, _, err = sokovan("cp", *words)
    assert status == 2
    assert "hint:" in err
    assert server.asked == []


def test_the_kernel_of_a_list_is_counted_from_zero(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("session", "files", "ddp", "--kernel=-1")[0] == 2
    assert server.asked == []
