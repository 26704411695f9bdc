"""Several processes of one proxy or API, which share a listening socket.

A connection waits in the socket's queue, and not in that of one process: none is lost with a
process that ends before it has taken it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from sokovan.adapters.local.clock import SystemClock

# Pauses before a process that ended is started again.
PAUSE_FIRST_S, PAUSE_MAX_S = 0.2, 10.0
LASTED_S = 60.0
STOPS = (signal.SIGINT, signal.SIGTERM)


def run_workers(
    count: int,
    work: Callable[[int], int],
    *,
    log: Callable[[str], None],
    stopping: Callable[[], None] = lambda: None,
    name: Callable[[int], str] = "process {} of the proxy".format,
    last: int | None = None,
) -> int:
    """Run `work` in `count` forked processes until SIGINT or SIGTERM.

    That calls `stopping`. One that ends by itself is started again, with growing pauses, which begin anew
    after one that has lasted. The process `last` is stopped after the others. The caller has no other
    thread and no event loop.
    """
    workers: dict[int, int] = {}
    stopped, clock = threading.Event(), SystemClock()
    begun_ms: dict[int, float] = {}

    def stop(_number: int = 0, _frame: FrameType | None = None) -> None:
        if not stopped.is_set():
            stopped.set()
            stopping()
        _end([process for process, worker in workers.items() if worker != last] or list(workers))

    def start(worker: int) -> None:
        # A signal between the fork and the entry would leave the new process alone.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            begun_ms[worker] = clock.monotonic_ms()
            workers[_forked(worker, work)] = worker
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    before = {number: signal.signal(number, stop) for number in STOPS}
    try:
        for worker in range(count):
            if not stopped.is_set():
                start(worker)
        pause_s = PAUSE_FIRST_S
        while workers:
            process, status = os.wait()
            worker = workers.pop(process)
            if stopped.is_set():
                if set(workers.values()) == {last}:
                    stop()
                continue
            if clock.monotonic_ms() - begun_ms[worker] > LASTED_S * 1000:
                pause_s = PAUSE_FIRST_S
            log(f"{name(worker)} ended with {os.waitstatus_to_exitcode(status)}; it starts again")
            if not stopped.wait(pause_s):
                start(worker)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _end(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):  # it may have ended a moment ago
            os.kill(process, signal.SIGTERM)


def _forked(worker: int, work: Callable[[int], int]) -> int:
    """Run `work` in a child process; returns its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        for number in STOPS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        code = work(worker)
    finally:
        # Nothing of the parent's is unwound in the child.
        os._exit(code)
