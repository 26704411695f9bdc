"""The process of the server on a data folder: find it, and end it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sokovan.adapters.process.shim.processes import look_up, send
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.embedded.data_folder import server_of

REPORT_EVERY_S = 5.0


class StillRunning(SokovanError):
    """The server has been asked to stop and has not ended in time."""

    code = "still-running"
    hint = "its log says what it waits for; run sokovan down again, or end the process with kill -9: kernels continue"


def stop_server(root: Path, *, timeout_s: float, echo: Callable[[str], None]) -> Mapping[str, Any] | None:
    """Ask the server of a folder to stop and wait until it has; None if none runs.

    Raises StillRunning. The process is identified by pid and start time, so that one
    that reused the pid is never signalled.
    """
    about = server_of(root)
    if about is None:
        return None
    pid = int(about["pid"])
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        # Looked up after the handle was opened: the handle then belongs to the process that is checked.
        process = look_up(pid)
        if process is None or process.start != about.get("start") or not send(process, signal.SIGTERM):
            return None
        echo(f"stopping the server at {about.get('url')} (pid {pid})")
        _await_end(handle, pid, timeout_s=timeout_s, echo=echo)
    finally:
        os.close(handle)
    return about


def _await_end(handle: int, pid: int, *, timeout_s: float, echo: Callable[[str], None]) -> None:
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    waited_s = 0.0
    while waited_s < timeout_s:
        step_s = min(REPORT_EVERY_S, timeout_s - waited_s)
        if ended.poll(step_s * 1000):
            return
        waited_s += step_s
        echo(f"still stopping, {waited_s:.0f} s")
    raise StillRunning(f"the server (pid {pid}) still runs {timeout_s:g} s after it was asked to stop")
