"""The working directory of a request: the current one, where the server sees it too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.cli.commands.workdir import with_local_workdir
from sokovan.sdk.machine import machine_mark
from sokovan.sdk.sync.client import Client
from sokovan.wire.api.sessions import MountBody, SessionBody
from tests.unit.cli.canned_server import CALLER, CannedServer

BODY = SessionBody(command=["true"])


@pytest.fixture
def client(server: CannedServer) -> Iterator[Client]:
    """A client of the canned server."""
    with Client(server.url, "sk-AK.secret") as client:
        yield client


def says_machine(server: CannedServer, machine: str, folders: tuple[str, ...] = ("/",)) -> None:
    server.says("GET whoami", {**CALLER, "machine": machine, "folders": list(folders)})


def test_on_the_same_machine_it_is_the_current_directory(server: CannedServer, client: Client, tmp_path: Path) -> None:
    says_machine(server, machine_mark())
    assert with_local_workdir(BODY, client, None).workdir == str(tmp_path)


@pytest.mark.parametrize("machine", ["", "of-another"])
def test_elsewhere_there_is_none(server: CannedServer, client: Client, machine: str) -> None:
    says_machine(server, machine)
    assert with_local_workdir(BODY, client, None) == BODY


def test_a_choice_is_kept(server: CannedServer, client: Client) -> None:
    chosen = SessionBody(command=["true"], workdir="/data")
    assert with_local_workdir(chosen, client, None) == chosen
    server.asked.clear()
    assert with_local_workdir(BODY, client, "none") == BODY
    assert server.asked == []


def test_links_in_paths_of_this_machine_are_resolved_since_the_server_follows_none(
    server: CannedServer, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    body = SessionBody(
        command=["true"],
        workdir=str(tmp_path / "link"),
        mounts=[MountBody(source=f"{tmp_path}/link", target="/data"), MountBody(source="/a/../b", target="/b")],
    )
    says_machine(server, machine_mark())
    found = with_local_workdir(body, client, None)
    assert found.workdir == str(tmp_path / "real")
    assert [one.source for one in found.mounts] == [str(tmp_path / "real"), "/a/../b"]


def test_a_folder_that_the_server_does_not_open_to_sessions_is_not_used(
    server: CannedServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    says_machine(server, machine_mark(), ("/data",))
    assert with_local_workdir(BODY, client, None) == BODY
    assert "--upload" in capsys.readouterr().err


def test_a_folder_beneath_one_that_the_server_opens_is_used(
    server: CannedServer, client: Client, tmp_path: Path
) -> None:
    says_machine(server, machine_mark(), (str(tmp_path.parent),))
    assert with_local_workdir(BODY, client, None).workdir == str(tmp_path)


@pytest.mark.parametrize("folder", ["/", "/usr", "/usr/bin"])
def test_a_system_folder_is_not_used(
    server: CannedServer,
    client: Client,
    *,
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    says_machine(server, machine_mark())
    monkeypatch.chdir(folder)
    assert with_local_workdir(BODY, client, None) == BODY
    assert "--workdir" in capsys.readouterr().err
