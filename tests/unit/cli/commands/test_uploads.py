"""`--upload`: what it sends, and what it excludes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.cli.commands.uploads import folder_of, with_absolute_workdir, with_folder
from sokovan.cli.main import _with_default_values
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.machine import machine_mark
from sokovan.sdk.sync.client import Client
from sokovan.sdk.upload_folder import read_folder
from sokovan.wire.api.sessions import SessionBody
from tests.unit.cli.canned_server import CALLER, CannedServer


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


def test_a_relative_folder_of_a_spec_file_is_beside_that_file(server: CannedServer, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a").write_text("x")
    body, beside = SessionBody(workdir="."), folder_of(str(project / "train.yaml"))
    server.says("GET whoami", {**CALLER, "machine": machine_mark()})
    with Client(server.url, "sk-AK.secret") as client:
        seen = with_folder(body, client, upload=None, workdir=None, beside=beside)
        assert seen.workdir == str(project)
        with pytest.raises(InvalidSetting, match="not a folder"):
            with_folder(SessionBody(workdir="absent"), client, upload=None, workdir=None, beside=beside)
    server.says("GET whoami", {**CALLER, "machine": "of-another"})
    with Client(server.url, "sk-AK.secret") as client:
        folder = read_folder(project)
        size = len(folder.manifest)
        blob = {"digest": folder.digest, "size": size, "received": size}
        server.says(f"PUT uploads/blobs/{folder.digest}", blob)
        server.says(f"PUT uploads/{folder.digest}", {"id": folder.digest, "files": 1, "bytes": 1, "missing": []})
        sent = with_folder(body, client, upload=None, workdir=None, beside=beside)
    assert (sent.workdir or "", sent.upload) == ("", folder.digest)
    assert folder_of(None) is None
    assert folder_of("-") is None


def test_a_spec_file_without_a_folder_says_none(server: CannedServer) -> None:
    body = SessionBody(workdir="none")
    with Client(server.url, "sk-AK.secret") as client:
        assert with_folder(body, client, upload=None, workdir=None).workdir == ""
    assert server.asked == []
    assert with_absolute_workdir(body, None).workdir == ""
