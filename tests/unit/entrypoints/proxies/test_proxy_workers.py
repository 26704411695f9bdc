"""Processes of a proxy: started again when they end, stopped together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

IMPORTS = """
import os, signal, sys
from sokovan.entrypoints.proxies import proxy_workers
proxy_workers.PAUSE_FIRST_S = 0.01
once = sys.argv[1]
"""
PROGRAM = """
def tell(line):
    # One write: the lines of several processes do not mix.
    os.write(1, f"{line}\\n".encode())
def work(worker):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if worker == 0 and not os.path.exists(once):
        open(once, "w").close()
        return 7
    tell(f"working {worker}")
    signal.sigwait({signal.SIGTERM})
    return 0
sys.exit(proxy_workers.run_workers(2, work, log=tell))
"""
# A signal arrives right after a fork, before anything else is done.
SIGNALLED = """
fork = os.fork
def signalled():
    process = fork()
    if process:
        os.kill(os.getpid(), signal.SIGTERM)
    return process
os.fork = signalled
"""


@contextlib.contextmanager
def running(program: str, once: Path) -> Iterator[subprocess.Popen[str]]:
    """The processes of a program; none is left at the end."""
    words = [sys.executable, "-c", program, str(once)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_process_that_ends_is_started_again_and_all_stop_together(tmp_path: Path) -> None:
    with running(IMPORTS + PROGRAM, tmp_path / "once") as process:
        assert process.stdout is not None
        lines = sorted(process.stdout.readline().strip() for _ in range(3))
        process.send_signal(signal.SIGTERM)

        assert lines == ["process 0 of the proxy ended with 7; it starts again", "working 0", "working 1"]
        assert process.wait(60) == 0


def test_a_process_that_was_forked_a_moment_before_the_signal_is_stopped_too(tmp_path: Path) -> None:
    (tmp_path / "once").touch()
    with running(IMPORTS + SIGNALLED + PROGRAM, tmp_path / "once") as process:
        assert process.wait(60) == 0


LAST = """
def tell(line):
    os.write(1, f"{line}\\n".encode())
def work(worker):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    tell(f"working {worker}")
    signal.sigwait({signal.SIGTERM})
    tell(f"ended {worker}")
    return 0
sys.exit(proxy_workers.run_workers(3, work, log=tell, last=0))
"""


def test_the_last_process_is_stopped_after_the_others(tmp_path: Path) -> None:
    with running(IMPORTS + LAST, tmp_path / "once") as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline().startswith("working")
        process.send_signal(signal.SIGTERM)
        assert [process.stdout.readline().strip() for _ in range(3)][-1] == "ended 0"
        assert process.wait(60) == 0
