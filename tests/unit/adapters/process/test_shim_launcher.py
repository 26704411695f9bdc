"""A shim that cannot start its kernel says so, and one that hangs is ended."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.process import shim_launcher
from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim_launcher import run_shim
from sokovan.ports.runtime import RuntimeFailure
from tests.kernels import until


def started(folder: Path, **changes: Any) -> None:
    plan = {
        "place": str(folder),
        "arguments": ["true"],
        "environment": {"PATH": "/usr/bin:/bin"},
        "folder": "/",
        "rlimits": [],
        "sandbox": None,
        "groups": {"version": 0, "folders": {}},
        "log_bytes_max": 1 << 20,
    }
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        run_shim({**plan, "lock": lock, **changes}, lock)
    finally:
        os.close(lock)


def is_free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_the_reason_of_a_failed_start_is_raised(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="not on PATH"):
        started(tmp_path, environment={"PATH": "/there/is/nothing"})
    assert "could not start" in (tmp_path / "state.json").read_text()
    assert not (tmp_path / "control.sock").exists()


def test_the_errors_of_a_failing_shim_are_raised(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="KeyError"):
        started(tmp_path, groups={})


@pytest.mark.slow
def test_a_shim_without_a_place_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="No such file"):
        started(tmp_path, place=str(tmp_path / "none"))


async def test_a_shim_that_hangs_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"hangs-{os.getpid()}"
    monkeypatch.setattr(shim_launcher, "START_LIMIT_S", 0.2)
    monkeypatch.setattr(shim_launcher, "_BOOT", f"import os, time; os.fork(); time.sleep(600)  # {mark}")
    with pytest.raises(subprocess.TimeoutExpired):
        started(tmp_path)

    async def all_have_ended() -> bool:
        marked = [one for one in processes.all_processes() if mark in processes.read_text(f"/proc/{one.pid}/cmdline")]
        return not any(one.alive for one in marked)

    await until(all_have_ended)


def test_the_lock_is_free_once_a_shim_that_hangs_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim_launcher, "START_LIMIT_S", 0.2)
    monkeypatch.setattr(shim_launcher, "_BOOT", "import os, time; os.fork(); time.sleep(600)")
    with pytest.raises(subprocess.TimeoutExpired):
        started(tmp_path)
    assert is_free(tmp_path / "lock")
