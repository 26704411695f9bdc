"""`sokovan doctor`: checks of this machine."""

from __future__ import annotations

import json

import pytest

from sokovan.entrypoints.doctor import DoctorFinding
from tests.unit.cli.canned_server import Sokovan

FINE = DoctorFinding("python", ok=True, detail="3.11.7")
NOTE = DoctorFinding("sandbox", ok=None, detail="none", hint="install bubblewrap")
LACK = DoctorFinding("disk", ok=False, detail="0.1 GiB free", hint="make room")


def found(monkeypatch: pytest.MonkeyPatch, *findings: DoctorFinding) -> None:
    """The findings of the checks."""
    monkeypatch.setattr("sokovan.entrypoints.doctor.run_checks", lambda: list(findings))


def test_every_check_is_a_line_and_hints_are_messages(sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, FINE, NOTE)
    status, out, err = sokovan("doctor")
    assert status == 0
    assert [line.split() for line in out.splitlines()[1:]] == [["python", "ok", "3.11.7"], ["sandbox", "note", "none"]]
    assert err == "sandbox: install bubblewrap\n"


def test_a_missing_requirement_is_a_failure(sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, FINE, LACK)
    status, out, _ = sokovan("doctor", "--json")
    assert status == 1
    assert json.loads(out)[1] == {"name": "disk", "ok": False, "detail": "0.1 GiB free", "hint": "make room"}


@pytest.mark.slow
def test_this_machine_can_be_checked(sokovan: Sokovan) -> None:
    status, out, _ = sokovan("doctor", "--json")
    assert status in {0, 1}
    assert "python" in {one["name"] for one in json.loads(out)}
