"""The doctor checks everything, changes nothing, and gives hints."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies
from sokovan.adapters.process.isolation.confinement import Confinement
from sokovan.adapters.process.isolation.sandbox import Sandbox
from sokovan.entrypoints import doctor
from sokovan.entrypoints.doctor import DoctorFinding, run_checks
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.testing.clock import VirtualClock
from sokovan.wire.api.system import DEFAULT_PORT
from tests.kernels import own_start


def test_every_check_has_a_result(tmp_path: Path) -> None:
    findings = run_checks({"HOME": str(tmp_path)})
    names = [finding.name for finding in findings]
    assert names == [
        "python",
        "sqlite",
        "clock",
        "sandbox",
        "limits",
        "network",
        "nvidia",
        "data",
        "disk",
        "port",
        "docker",
    ]
    assert all(finding.detail for finding in findings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_whatever_is_not_well_comes_with_a_hint(tmp_path: Path) -> None:
    assert all(finding.hint for finding in run_checks({"HOME": str(tmp_path)}) if finding.ok is False)


def test_a_missing_sandbox_is_said_plainly(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in run_checks({"HOME": str(tmp_path), "PATH": os.environ["PATH"]})}
    assert "sandbox" in found["sandbox"].detail


def found(name: str, tmp_path: Path) -> DoctorFinding:
    return next(finding for finding in run_checks({"HOME": str(tmp_path)}) if finding.name == name)


@pytest.mark.slow
def test_the_port_of_ones_own_server_is_not_taken_by_others(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / ".local" / "share" / "sokovan")
    with folder.locked():
        folder.write_private(
            "up.json", json.dumps({"url": f"http://127.0.0.1:{DEFAULT_PORT}", "pid": os.getpid(), "start": own_start()})
        )
        answer = found("port", tmp_path)
    assert (answer.ok, answer.detail) == (True, f"{DEFAULT_PORT} is in use by your own server")


@pytest.mark.parametrize(
    ("controllers", "ok"),
    [
        ((), None),
        (("cpu",), None),
        (("memory", "cpu"), None),
        (("memory", "pids"), True),
    ],
)
def test_limits_are_well_only_where_memory_and_processes_are_held_by_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, controllers: tuple[str, ...], *, ok: bool | None
) -> None:
    hierarchies = Hierarchies(2, dict.fromkeys(controllers, tmp_path))
    held = Confinement(Sandbox(absence="it is switched off"), hierarchies)
    monkeypatch.setattr(doctor, "confinement", lambda **_options: held)
    finding = found("limits", tmp_path)
    assert (finding.ok, bool(finding.hint)) == (ok, ok is None)


@pytest.mark.parametrize(("year", "ok"), [(1970, False), (2030, True)])
def test_a_clock_that_cannot_be_right_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, year: int, *, ok: bool
) -> None:
    now_ms = int(datetime(year, 1, 2, tzinfo=UTC).timestamp() * 1000)
    monkeypatch.setattr(doctor, "SystemClock", lambda: VirtualClock(now_ms=now_ms))
    finding = found("clock", tmp_path)
    assert (finding.ok, finding.detail) == (ok, f"{year}-01-02 00:00:00 UTC")
