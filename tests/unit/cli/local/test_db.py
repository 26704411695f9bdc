"""`sokovan db`: what it prints, and with which exit status it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sokovan.cli.app import run_command
from sokovan.cli.local.db import check, status_of, upgrade
from sokovan.domain.errors import Conflict, InvalidInput, StoreUnavailable
from tests.unit.entrypoints.little_store import little_store, names_in, spoil, take_back


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store of this version."""
    return little_store(tmp_path)


@pytest.mark.slow
def test_a_current_store_is_0(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(f"sqlite:///{file}", json=False) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"sqlite:///{file}  revision ")
    assert out.endswith("  current\n")
    assert err == ""


@pytest.mark.slow
def test_an_old_schema_exits_with_1_and_a_hint(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take_back(file, "0002")
    assert check(f"sqlite:///{file}", json=False) == 1
    out, err = capsys.readouterr()
    assert out == f"sqlite:///{file}  revision 0002  old\n"
    assert "run sokovan db upgrade" in err


@pytest.mark.slow
def test_an_old_schema_is_upgraded_with_progress_messages(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take_back(file, "0002")
    assert upgrade(f"sqlite:///{file}", json=True) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["before"], document["current"]) == ("0002", True)
    assert document["revision"] == document["newest"]
    assert err == f"sqlite:///{file}: from revision 0002 to {document['newest']} ...\ndone\n"


def test_a_current_store_is_upgraded_by_doing_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert upgrade(f"sqlite:///{file}", json=False) == 0
    out, err = capsys.readouterr()
    assert out.endswith("  current\n")
    assert "already" in err


def test_a_store_of_a_later_version_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(file, "UPDATE alembic_version SET version_num = '9999'")
    assert upgrade(f"sqlite:///{file}", json=True) == 5
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["code"] == "schema-mismatch"


@pytest.mark.parametrize("command", [check, upgrade])
@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("sqlite:////nowhere/state.db", 3),
        ("sqlite://", 2),
        ("sqlite:///pyproject.toml", 2),
        ("oracle://user:geheim@host/name", 2),
        ("postgresql://user:geheim@127.0.0.1:1/name", 7),
    ],
)
def test_a_store_that_cannot_be_opened_is_an_error(
    command: object, address: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(command)
    assert command(address, json=False) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "geheim" not in err


@pytest.mark.parametrize("command", ["check", "upgrade"])
def test_a_missing_file_is_not_created(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOKOVAN_STORE", f"sqlite:///{tmp_path}/none.db")
    assert run_command(["db", command]) == 3
    assert "nothing was created" in capsys.readouterr().err
    assert names_in(tmp_path) == set()


@pytest.mark.parametrize(("error", "status"), [(InvalidInput("x"), 2), (StoreUnavailable("x"), 7), (Conflict("x"), 1)])
def test_every_error_has_an_exit_status(error: InvalidInput | StoreUnavailable | Conflict, status: int) -> None:
    assert status_of(error) == status


@pytest.mark.parametrize("command", ["check", "upgrade"])
def test_the_help_names_options_and_exit_statuses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["db", command, "--help"]) == 0
    out = capsys.readouterr().out
    for word in ("--store", "--json", "Exit codes", "For example"):
        assert word in out
