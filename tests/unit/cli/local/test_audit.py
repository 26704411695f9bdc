"""`sokovan audit`: what it prints, and with which exit status it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sokovan.adapters.sql.invariants.auditor import INVARIANTS
from sokovan.cli.app import run_command
from sokovan.cli.local.audit import audit
from tests.unit.entrypoints.little_store import little_store, names_in, overcharge, spoil, take_back


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store in order."""
    return little_store(tmp_path)


def run(path: Path | str, *, as_json: bool = False, only: str | None = None) -> int:
    """The exit status of the command for a file or an address."""
    address = f"sqlite:///{path}" if isinstance(path, Path) else path
    return audit(address, json=as_json, only=only)


@pytest.mark.slow
def test_every_law_that_holds_is_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == len(INVARIANTS)
    assert out.splitlines()[0] == "I1   pass  slot conservation"
    assert "I10  pass  terminal absorbing" in out
    assert err == f"sqlite:///{file}: {len(INVARIANTS)} pass, 0 fail\n"


@pytest.mark.slow
def test_a_broken_law_names_its_rows(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overcharge(file)
    assert run(file) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[:3] == [
        "I1   FAIL  1 row: slot conservation",
        (
            "     the usage of an agent is not the sum of the slots that kernels hold:"
            " agent_id=a1 slot=cpu kept=1007 counted=1000"
        ),
        "I2   pass  no logical overcommit",
    ]
    assert err.endswith("18 pass, 1 fail\n")


@pytest.mark.slow
def test_values_that_would_run_together_are_quoted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(file, "INSERT INTO owner_usage VALUES ('user', 'two words' || char(27) || '[31m', 'cpu', 1, 0)")
    assert run(file, only="I1") == 1
    assert "scope=user name='two words\\x1b[31m' slot=cpu kept=1 counted=0" in capsys.readouterr().out


@pytest.mark.slow
def test_a_missing_value_is_a_dash(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(file, "UPDATE sessions SET cause = 'bored', result = 'failure'")
    assert run(file, only="I10") == 1
    assert "session_id=s1 status=running cause=bored first_cause=-" in capsys.readouterr().out


@pytest.mark.slow
def test_many_rows_are_counted_and_not_all_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(
        file,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1250)"
        " INSERT INTO owner_usage SELECT 'user', 'nobody' || i, 'cpu', 1, 0 FROM n",
    )
    assert run(file, only="I1") == 1
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1], len(lines)) == (
        "I1   FAIL  1250 rows: slot conservation",
        "     ... and 1150 more",
        102,
    )


def test_only_some_laws_may_be_asked_for(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overcharge(file)
    assert run(file, only="I7,i2") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["I2", "I7"]


@pytest.mark.slow
def test_with_json_standard_output_is_one_document(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overcharge(file)
    assert run(file, as_json=True, only="I1,I2") == 1
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert (document["store"], document["ok"]) == (f"sqlite:///{file}", False)
    first, second = document["invariants"]
    assert (first["id"], first["title"], first["ok"], first["count"]) == ("I1", "slot conservation", False, 1)
    assert first["rows"] == [
        {
            "problem": "the usage of an agent is not the sum of the slots that kernels hold",
            "agent_id": "a1",
            "slot": "cpu",
            "kept": 1007,
            "counted": 1000,
        }
    ]
    assert (second["ok"], second["count"], second["rows"]) == (True, 0, [])
    assert second["meaning"] == INVARIANTS[1].meaning


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [
        ("sqlite:////nowhere/state.db", 3, "store-missing"),
        ("sqlite:///pyproject.toml", 2, "not-a-database"),
        ("mysql://user:geheim@host/name", 2, "unknown-database"),
        ("user:geheim@host/name", 2, "unknown-database"),
        ("postgresql://user:geheim@127.0.0.1:1/name", 7, "store-unavailable"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_store_that_cannot_be_read_is_an_error_with_code_and_hint(
    address: str, status: int, code: str, *, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(address, as_json=as_json) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert "geheim" not in err
    if as_json:
        error = json.loads(err)
        assert error["code"] == code
        assert error["hint"]
    else:
        assert err.startswith("error: ")
        assert err.endswith(f"[{code}]\n")


@pytest.mark.slow
def test_an_old_schema_is_not_a_violated_invariant(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take_back(file, "0004")
    assert run(file) == 5
    out, err = capsys.readouterr()
    assert out == ""
    assert "the database is at revision 0004" in err
    assert "run `sokovan db upgrade`" in err


@pytest.mark.parametrize(
    ("only", "answer"), [("I99", "did you mean I19, I29, I9?"), ("", "at least one"), ("I3", "what runs on hosts")]
)
def test_an_unknown_invariant_is_a_usage_error(
    file: Path, only: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, only=only) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert answer in err


def test_the_store_may_be_named_by_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOKOVAN_STORE", f"sqlite:///{file}")
    assert audit(None, json=False, only="I1") == 0
    assert f"sqlite:///{file}: 1 pass" in capsys.readouterr().err


def test_the_default_is_the_embedded_file_which_is_not_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SOKOVAN_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert audit(None, json=False, only=None) == 3
    assert f"there is no file {tmp_path}/sokovan/state.db" in capsys.readouterr().err
    assert names_in(tmp_path) == set()


@pytest.mark.slow
def test_a_reader_that_has_enough_leaves_no_traceback(file: Path) -> None:
    words = [sys.executable, "-m", "sokovan", "audit", "--store", f"sqlite:///{file}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        message = process.stderr.read()
    assert process.returncode == 1
    assert "Traceback" not in message


@pytest.mark.slow
def test_the_command_line_hands_its_options_over(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["audit", "--store", f"sqlite:///{file}", "--only", "I7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_the_help_names_options_and_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["audit", "--help"]) == 0
    out = capsys.readouterr().out
    for word in ("--store", "--json", "--only", "SOKOVAN_STORE", "Exit codes", "For example"):
        assert word in out
