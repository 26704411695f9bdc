"""The fork server: a preloaded process that forks into each shim.

Starting an interpreter takes ten times as long as a fork. Each request is one message
with open files attached: the kernel's lock, and the plan, answer and error files of the
shim. The process ends when its socket is closed; shims outlive it. The system removes those
that end before, since it ignores the signal of their ends.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from sokovan.adapters.process.shim.main import ignore_signals, read_plan, supervise
from sokovan.adapters.process.shim.processes import boot_id
from sokovan.adapters.process.shim.request_listener import ShimRequest

FILES = 4  # lock, plan, answer, errors


def main() -> None:
    """Serve the socket on standard input, as a detached process."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    ignore_signals()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    boot_id()  # read once, for all forks
    gc.freeze()  # keeps memory pages shared with the forks
    caller = ShimRequest(socket.socket(fileno=os.dup(0)))
    while True:
        message, files = caller.receive(files_max=FILES)
        if message is None:
            return
        if len(files) == FILES:
            _start_shim(caller, files)
        for handle in files:
            os.close(handle)


def _start_shim(caller: ShimRequest, files: list[int]) -> None:
    if os.fork():
        return
    status = 1
    try:
        caller.line.close()
        _become_shim(files)
        status = 0
    except BaseException:  # noqa: BLE001  # it must not continue as a fork server; the agent gets the traceback
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _become_shim(files: list[int]) -> None:
    lock, *streams = files
    for target, handle in enumerate(streams):
        os.dup2(handle, target)
        os.close(handle)
    os.setsid()
    supervise(read_plan(), lock)
