"""Stops a kernel, even if its shim does not answer.

A kernel without a sandbox may suspend its shim, remove its socket or its whole folder. It
must be possible to stop it nevertheless.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sokovan.adapters.process.launch.environment import marks_of
from sokovan.adapters.process.layout import KernelLayout
from sokovan.adapters.process.observer import Observer
from sokovan.adapters.process.orphan_processes import OrphanProcesses, groups_of
from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim_client import ShimSilent, request_stop
from sokovan.adapters.process.threads import Threads, Work
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelState

# A shim answers within milliseconds, unless it waits for a sandbox, the disk or a processor.
ANSWER_S = 2.0
# So often one is asked that was woken, or is only slow: killed with it, its kernel has no grace.
_ASKED_AGAIN = 5
_STOPPED = "T"
# How long a killed process may take to disappear.
_DEATH_S = 1.0
_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class Stopper:
    """Stops kernels; blocks for some seconds at most."""

    layout: KernelLayout
    observer: Observer

    def stop(self, name: str, grace_s: float, reason: str = "", notice: str = "") -> None:
        """Request its shim to stop it after `grace_s`; kill both if there is no answer.

        `reason` is why the agent does it by itself, and that of the kernel's end. `notice` is
        a file that the kernel finds before.
        """
        if not (self.layout.kernels / name).is_dir() or self._request_stop(name, grace_s, reason, notice):
            return
        shim = self._shim(name)
        if shim is None:
            return
        for _ in range(_ASKED_AGAIN):
            processes.send(shim, signal.SIGCONT)
            if self._request_stop(name, grace_s, reason, notice):
                return
            found = processes.look_up(shim.pid)
            if found is None or found.state == _STOPPED:
                break  # it has ended, or its kernel has stopped it again
        processes.send(shim, signal.SIGKILL)
        deadline = time.monotonic() + _DEATH_S
        while processes.is_alive(shim.pid, shim.start) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        self.observer.one(name)

    def _request_stop(self, name: str, grace_s: float, reason: str, notice: str) -> bool:
        try:
            request_stop(self.layout.kernels / name, grace_s, limit_s=ANSWER_S, reason=reason, notice=notice)
        except ShimSilent:
            return False
        return True

    def _shim(self, name: str) -> processes.Process | None:
        """The shim of a kernel that has not ended; observing ends what has none."""
        found = self.observer.one(name)
        if found is None or found.state is KernelState.EXITED:
            return None
        return self.observer.shim(name)


class RemainsEnder:
    """Ends what is left of kernels of one root whose folder is gone."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._threads = Threads()

    async def end_remains(self, kernel_id: KernelId, attempt: int, traces: str) -> str:
        """End the processes of a kernel; an empty text proves that nothing of it runs."""
        marks = marks_of(kernel_id, attempt, root=self._root)
        return await self._threads.run(Work.END, _end_remains, marks, traces)


def _end_remains(marks: Mapping[str, str], traces: str) -> str:
    state = json.loads(traces or "{}")
    if state.get("boot") not in {None, processes.boot_id()}:
        return ""
    groups = groups_of(state)
    left = OrphanProcesses(marks, groups=groups, state=state).end()
    if left:
        return f"does not die: pid {left[0].pid}"
    groups.remove()
    return ""
