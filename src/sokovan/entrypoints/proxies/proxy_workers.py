"""Several processes of one proxy, which share a listening socket.

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

# Pauses before a process that ended is started again.
PAUSE_FIRST_S, PAUSE_MAX_S = 0.2, 10.0
STOPS = (signal.SIGINT, signal.SIGTERM)


def run_workers(
    count: int, work: Callable[[int], int], *, log: Callable[[str], None], stopping: Callable[[], None] = lambda: None
) -> int:
    """Run `work` in `count` forked processes until SIGINT or SIGTERM.

    That calls `stopping`. One that ends by itself is started again, with growing pauses. The caller has no other
    thread and no event loop.
    """
    workers: dict[int, int] = {}
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()
        stopping()
        for process in list(workers):
            with contextlib.suppress(ProcessLookupError):  # it may have ended a moment ago
                os.kill(process, signal.SIGTERM)

    def start(worker: int) -> None:
        # A signal between the fork and the entry would leave the new process alone.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
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
                continue
            log(f"process {worker} of the proxy ended with {os.waitstatus_to_exitcode(status)}; it starts again")
            if not stopped.wait(pause_s):
                start(worker)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


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
