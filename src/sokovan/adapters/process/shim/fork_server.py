"""A process with everything loaded, which turns a copy of itself into each shim.

Starting an interpreter takes ten times as long as a fork. It is told by one message
per shim, with open files attached: the kernel's lock, and where the shim reads its
plan, answers, and complains. It ends when nobody is left to ask.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from sokovan.adapters.process.shim.main import hold_kernel, read_plan
from sokovan.adapters.process.shim.request_listener import ShimRequest

FILES = 4  # lock, plan, answer, complaints


def main() -> None:
    """Serve the socket that is standard input, from a process that belongs to nobody."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    # Whoever stops the agent by its group or terminal must not take a start that is under way.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()  # so that copies go on sharing what they do not change
    caller = ShimRequest(socket.socket(fileno=os.dup(0)))
    while True:
        message, files = caller.receive(files_max=FILES)
        if message is None:
            return
        if len(files) == FILES:
            _bear(caller, files)
        for handle in files:
            os.close(handle)


def _bear(caller: ShimRequest, files: list[int]) -> None:
    """Start a shim without a parent: the process between us and it ends at once."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    status = 1
    try:
        if os.fork() == 0:
            caller.line.close()
            _become_shim(files)
        status = 0
    finally:
        os._exit(status)


def _become_shim(files: list[int]) -> None:
    lock, *streams = files
    for target, handle in enumerate(streams):
        os.dup2(handle, target)
        os.close(handle)
    try:
        os.setsid()
        hold_kernel(read_plan(), lock)
    except BaseException:  # noqa: BLE001  # it must not go on as a nursery, whatever it was; the agent hears of it
        sys.excepthook(*sys.exc_info())
        os._exit(1)
