"""`--upload`: what it sends, and what it excludes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.cli.commands.uploads import with_folder
from sokovan.cli.main import _with_default_values
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.sync.client import Client
from sokovan.sdk.upload_folder import read_folder
from sokovan.wire.api.sessions import SessionBody
from tests.unit.cli.canned_server import CannedServer


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "--upload"], ["run", "--upload", "."]),
        (["run", "--upload", "-d", "--", "x"], ["run", "--upload", ".", "-d", "--", "x"]),
        (["run", "--upload", "src", "--", "x"], ["run", "--upload", "src", "--", "x"]),
        (["run", "--hold", "--upload", "src", "--", "x"], ["run", "--hold", "user", "--upload", "src", "--", "x"]),
        (["run", "--", "x", "--upload"], ["run", "--", "x", "--upload"]),
    ],
)
def test_without_a_value_an_option_has_its_default(words: list[str], expected: list[str]) -> None:
    assert _with_default_values(words) == expected


def test_the_session_names_the_upload(server: CannedServer, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a").write_text("x")
    folder = read_folder(tmp_path / "project")
    size = len(folder.manifest)
    blob = {"digest": folder.digest, "size": size, "received": size}
    server.answers[f"PUT uploads/blobs/{folder.digest}"] = []
    server.says(f"PUT uploads/{folder.digest}", {"id": folder.digest, "files": 1, "bytes": 1, "missing": []})
    server.says(f"PUT uploads/blobs/{folder.digest}", blob)
    with Client(server.url, "sk-AK.secret") as client:
        body = with_folder(SessionBody(), client, upload=str(tmp_path / "project"), workdir=None)
    assert body.upload == folder.digest


@pytest.mark.parametrize(("body", "workdir"), [(SessionBody(), "/srv"), (SessionBody(workdir="/srv"), None)])
def test_an_upload_and_a_working_directory_exclude_each_other(
    server: CannedServer, body: SessionBody, workdir: str | None
) -> None:
    with Client(server.url, "sk-AK.secret") as client, pytest.raises(InvalidSetting, match="exclude"):
        with_folder(body, client, upload=".", workdir=workdir)
    assert server.asked == []
