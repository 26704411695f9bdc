"""Shims from a process that has everything loaded, or by themselves where there is none."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.process import fork_server as module
from sokovan.adapters.process.fork_server import ForkServer
from sokovan.adapters.process.shim import processes
from sokovan.ports.runtime import RuntimeFailure
from tests.kernels import until


@pytest.fixture
def fork_server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.close()


def plan(folder: Path, **changes: Any) -> dict[str, Any]:
    made = {
        "place": str(folder),
        "arguments": ["true"],
        "environment": {"PATH": "/usr/bin:/bin"},
        "folder": "/",
        "rlimits": [],
        "sandbox": None,
        "groups": {"version": 0, "folders": {}},
        "log_bytes_max": 1 << 20,
    }
    return {**made, **changes}


def started(fork_server: ForkServer, folder: Path, **changes: Any) -> None:
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fork_server.run_shim({**plan(folder, **changes), "lock": lock}, lock)
    finally:
        os.close(lock)


def own(fork_server: ForkServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The process of this fork_server, found by a mark: other tests may have theirs."""
    mark = f"fork_server-of-{folder}"
    monkeypatch.setattr(module, "_BOOT", f"{module._BOOT}  # {mark}")
    started(fork_server, folder)
    marked = {one.pid for one in processes.all_processes() if mark in processes.read_text(f"/proc/{one.pid}/cmdline")}
    [pid] = [pid for pid in marked if f'"shim_pid": {pid}' not in (folder / "state.json").read_text()]
    return pid


def test_many_kernels_start_at_once(fork_server: ForkServer, tmp_path: Path) -> None:
    threads = [threading.Thread(target=started, args=(fork_server, tmp_path / str(number))) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all('"started_ms"' in (tmp_path / str(number) / "state.json").read_text() for number in range(8))


@pytest.mark.slow
def test_the_reason_of_a_failed_start_is_raised(fork_server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="not on PATH"):
        started(fork_server, tmp_path, environment={"PATH": "/there/is/nothing"})
    with pytest.raises(RuntimeFailure, match="No such file"):
        started(fork_server, tmp_path, place=str(tmp_path / "none"))
    with pytest.raises(RuntimeFailure, match="KeyError"):
        started(fork_server, tmp_path, groups={})
    started(fork_server, tmp_path)


def test_a_plan_may_be_long(fork_server: ForkServer, tmp_path: Path) -> None:
    started(
        fork_server, tmp_path, environment={"PATH": "/usr/bin:/bin", "LONG": "x" * 100_000, "LONGER": "y" * 100_000}
    )
    assert '"started_ms"' in (tmp_path / "state.json").read_text()


def test_a_kernel_starts_from_a_process_with_many_open_files(fork_server: ForkServer, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while opened[-1] < 1024:
            opened.append(os.dup(opened[0]))
        started(fork_server, tmp_path)
    finally:
        for handle in opened:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert '"started_ms"' in (tmp_path / "state.json").read_text()


@pytest.mark.slow
def test_a_killed_fork_server_is_restarted(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.kill(own(fork_server, tmp_path / "first", monkeypatch), signal.SIGKILL)
    for name in ("second", "third"):
        started(fork_server, tmp_path / name)
        assert '"started_ms"' in (tmp_path / name / "state.json").read_text()


@pytest.mark.slow
def test_a_request_lost_with_its_fork_server_is_repeated(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetful = "import os, socket; os.fork() and os._exit(0); socket.socket(fileno=0).recv(9)"
    monkeypatch.setattr(module, "_BOOT", forgetful)
    started(fork_server, tmp_path)
    assert '"started_ms"' in (tmp_path / "state.json").read_text()


@pytest.mark.slow
def test_without_a_fork_server_each_shim_starts_by_itself(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BOOT", "raise SystemExit(1)")
    started(fork_server, tmp_path)
    assert '"started_ms"' in (tmp_path / "state.json").read_text()


@pytest.mark.slow
def test_a_shim_that_says_nothing_is_not_waited_for_for_ever(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = "import os, signal; os.fork() and os._exit(0); signal.alarm(20); signal.pause()"
    with monkeypatch.context() as patch:
        patch.setattr(module, "_BOOT", deaf)
        patch.setattr(module, "START_LIMIT_S", 0.3)
        with pytest.raises(RuntimeFailure, match="no answer"):
            started(fork_server, tmp_path)
    started(fork_server, tmp_path)


async def test_a_fork_server_ends_with_its_runtime(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = own(fork_server, tmp_path, monkeypatch)
    fork_server.close()

    async def is_gone() -> bool:
        found = processes.look_up(pid)
        return found is None or not found.alive

    await until(is_gone)
