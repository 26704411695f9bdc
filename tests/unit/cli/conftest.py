"""The command line in this process, in front of a server of canned answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.cli.main import run
from tests.unit.cli.canned_server import CannedServer, Sokovan, canned_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[CannedServer]:
    """The server in the environment of a user without settings."""
    for name in ("SOKOVAN_CONTEXT", "SOKOVAN_FORMAT", "SOKOVAN_QUEUE", "SOKOVAN_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    with canned_server() as canned:
        monkeypatch.setenv("SOKOVAN_URL", canned.url)
        monkeypatch.setenv("SOKOVAN_TOKEN", "sk-AK.secret")
        yield canned


@pytest.fixture
def sokovan(capsys: pytest.CaptureFixture[str]) -> Sokovan:
    """Runs a command line; gives its exit status, standard output and standard error."""

    def command(*words: str) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            # Commands of users do not load it, and the parser checks each value with it where it is loaded.
            patch.delitem(sys.modules, "pydantic", raising=False)
            status = run(list(words))
        return status, *capsys.readouterr()

    return command
