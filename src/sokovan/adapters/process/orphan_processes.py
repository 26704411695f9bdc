"""Finds and ends the processes of a kernel whose shim or folder is gone."""

from __future__ import annotations

import json
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
_PAUSE_MAX_S = 0.5
_SHIM_MODULE = "sokovan.adapters.process.shim."
_TRACES = ("boot", "shim_pid", "shim_start", "pid", "pid_start", "pipe")


def traces_of(launch: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """The control groups, shim and output of a kernel, which identify its processes."""
    kept = {name: state[name] for name in _TRACES if name in state}
    return json.dumps(kept | {"groups": launch.get("groups") or {}})


def groups_of(record: Mapping[str, Any]) -> ControlGroups:
    """The control groups in the launch record of a kernel, or in its traces."""
    kept = record.get("groups") or {}
    return ControlGroups(int(kept.get("version") or 0), dict(kept.get("folders") or {}))


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
        """Kill until nothing is found, strays included; returns what cannot be killed."""
        deadline, pause_s = time.monotonic() + END_LIMIT_S, _PAUSE_S
        while True:
            self._groups.kill()
            found = [*self.found(), *strays()]
            for process in found:
                processes.send(process, signal.SIGSTOP)
            for process in found:
                processes.send(process, signal.SIGKILL)
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, 2 * pause_s)  # a scan of all processes is expensive


def strays() -> list[processes.Process]:
    """Processes of some kernel that do not descend from a shim.

    A shim adopts its orphans, so that theirs was killed. They may have left their control group and session and closed
    their output, but cannot remove the mark of their limits.
    """
    if processes.is_marked(os.getpid()):  # this agent runs inside a kernel: all it starts is marked
        return []
    all_processes = {process.pid: process for process in processes.all_processes()}
    marked = {pid for pid in all_processes if processes.is_marked(pid)}
    found = (all_processes[pid] for pid in marked if not _descends_from_shim(pid, marked, all_processes))
    return [process for process in found if process.alive]


def _descends_from_shim(pid: int, marked: set[int], all_processes: Mapping[int, processes.Process]) -> bool:
    for _ in range(len(all_processes)):
        if pid not in marked:
            break
        pid = all_processes[pid].parent
    # The command line cannot be forged: every process of a kernel is marked.
    return _SHIM_MODULE in processes.read_text(f"/proc/{pid}/cmdline")


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:  # noqa: PTH123  # half the cost of Path, for every process
            return stream.read()
    except OSError:
        return b""
