"""The working directory of a request: the current one, where the server sees it too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.cli.commands.workdir import with_local_workdir
from sokovan.sdk.machine import machine_mark
from sokovan.sdk.sync.client import Client
from sokovan.wire.api.sessions import SessionBody
from tests.unit.cli.canned_server import CALLER, CannedServer

BODY = SessionBody(command=["true"])


@pytest.fixture
def client(server: CannedServer) -> Iterator[Client]:
    """A client of the canned server."""
    with Client(server.url, "sk-AK.secret") as client:
        yield client


def says_machine(server: CannedServer, machine: str) -> None:
    server.says("GET whoami", {**CALLER, "machine": machine})


def test_on_the_same_machine_it_is_the_current_directory(server: CannedServer, client: Client, tmp_path: Path) -> None:
    says_machine(server, machine_mark())
    assert with_local_workdir(BODY, client, None).workdir == str(tmp_path)


@pytest.mark.parametrize("machine", ["", "of-another"])
def test_elsewhere_there_is_none(server: CannedServer, client: Client, machine: str) -> None:
    says_machine(server, machine)
    assert with_local_workdir(BODY, client, None) == BODY


def test_a_choice_is_kept_and_nothing_is_asked(server: CannedServer, client: Client) -> None:
    chosen = SessionBody(command=["true"], workdir="/data")
    assert with_local_workdir(chosen, client, None) == chosen
    assert with_local_workdir(BODY, client, "none") == BODY
    assert server.asked == []


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
