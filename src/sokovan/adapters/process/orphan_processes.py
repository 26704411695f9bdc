"""Finds and ends the processes of a kernel whose shim is gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim.control_groups import ControlGroups

END_LIMIT_S = 5.0
_PAUSE_S = 0.01


class OrphanProcesses:
    """The processes of one kernel, found without its shim.

    They are identified by control groups, environment variables, output pipe, session and
    descent from such a process. A shim that still runs is included: it was given up.
    """

    def __init__(self, marks: Mapping[str, str], *, groups: ControlGroups, state: Mapping[str, Any]) -> None:
        self._variables = {f"{name}={value}".encode() for name, value in marks.items()}
        self._groups = groups
        self._session = int(state.get("pid") or 0)
        self._session_start = int(state.get("pid_start") or 0)
        self._shim = int(state.get("shim_pid") or 0)
        self._shim_start = int(state.get("shim_start") or 0)
        self._pipe = f"pipe:[{state['pipe']}]" if state.get("pipe") else ""

    def found(self) -> list[processes.Process]:
        """Every live process that belongs to the kernel."""
        all_processes = {process.pid: process for process in processes.all_processes() if process.pid != os.getpid()}
        marked = {process.pid for process in self._groups.members()}
        shim = all_processes.get(self._shim)
        marked |= {shim.pid} if shim is not None and shim.start == self._shim_start else set()
        # A session id may be reused once its leader has ended.
        leader = all_processes.get(self._session)
        session = self._session if leader is not None and leader.start == self._session_start else 0
        marked |= {pid for pid, process in all_processes.items() if session and process.session == session}
        marked |= {pid for pid in all_processes.keys() - marked if self._is_marked(pid)}
        # Parents may follow their children in the list: repeat until nothing is added.
        while True:
            below = {pid for pid, process in all_processes.items() if process.parent in marked} - marked
            if not below:
                break
            marked |= below
        return [process for pid, process in all_processes.items() if pid in marked and process.alive]

    def _is_marked(self, pid: int) -> bool:
        variables = set(_environment(pid).split(b"\0"))
        return self._variables <= variables or self._writes_to_pipe(pid)

    def _writes_to_pipe(self, pid: int) -> bool:
        if not self._pipe:
            return False
        folder = f"/proc/{pid}/fd"
        try:
            return any(str(Path(f"{folder}/{name}").readlink()) == self._pipe for name in ("1", "2"))
        except OSError:
            return False

    def end(self) -> list[processes.Process]:
        """Kill until nothing is found; returns what cannot be killed."""
        deadline = time.monotonic() + END_LIMIT_S
        while True:
            self._groups.kill()
            found = self.found()
            for process in found:
                processes.send(process, signal.SIGSTOP)
            for process in found:
                processes.send(process, signal.SIGKILL)
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(_PAUSE_S)


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:  # noqa: PTH123  # half the cost of Path, for every process
            return stream.read()
    except OSError:
        return b""
