"""Measures kernels: CPU time, memory and processes.

Control groups count exactly, and without a look at every process of the machine. A kernel
without them is measured by its processes, in one pass over the process table for all
kernels that are measured within a short time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from sokovan.adapters.process.layout import folder_name
from sokovan.adapters.process.observer import Observer
from sokovan.adapters.process.orphan_processes import groups_of
from sokovan.adapters.process.shim.control_groups import ControlGroups
from sokovan.adapters.process.shim.processes import Process, all_processes, read_text
from sokovan.adapters.process.threads import Threads, Work
from sokovan.domain.ids import KernelId
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelState, KernelUse, RuntimeFailure

# How long one pass over the process table counts.
PASS_MS = 500
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# The files of the memory in use, and the part of memory.stat that the system can drop, by version.
_MEMORY_FILES = {
    1: ("memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.current", "inactive_file"),
}


class MeasuredKernels:
    """The UseRuntime port on processes."""

    _observer: Observer
    _threads: Threads
    _clock: Clock

    @cached_property
    def _passes(self) -> ProcessPasses:
        return ProcessPasses(self._clock)

    async def measure(self, kernel_id: KernelId, attempt: int) -> KernelUse:
        """Measure a running kernel."""
        return await self._threads.run(Work.LOOK, self._measured, folder_name(kernel_id, attempt))

    def _measured(self, name: str) -> KernelUse:
        # A shim may outlive the end of its kernel for a moment.
        seen, shim = self._observer.one(name), self._observer.shim(name)
        if seen is None or seen.state is KernelState.EXITED or shim is None:
            raise RuntimeFailure("the kernel does not run", hint="a kernel is measured while it runs")
        groups = groups_of(self._observer.launch(name))
        cpu_ms, memory, number = cpu_ms_of(groups), memory_of(groups), processes_of(groups)
        if cpu_ms is None or memory is None or number is None:
            summed = self._passes.use_below(shim)
            # The time is that of the CPU figure: rates are computed from both.
            sampled_ms = summed.sampled_ms if cpu_ms is None else self._clock.now_ms()
            return KernelUse(
                sampled_ms,
                summed.cpu_ms if cpu_ms is None else cpu_ms,
                summed.memory_bytes if memory is None else memory,
                summed.processes if number is None else number,
            )
        return KernelUse(self._clock.now_ms(), cpu_ms, memory, number)


@dataclass(slots=True)
class _Pass:
    """All processes at one time, by their parents."""

    taken_ms: int
    due_ms: int
    children: dict[int, list[Process]]
    found: dict[int, Process]


class ProcessPasses:
    """Sums up the processes of kernels; safe for threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, Lock()
        self._last: _Pass | None = None

    def use_below(self, shim: Process) -> KernelUse:
        """Sum of the processes below a shim, with the CPU time of those that have ended."""
        table = self._table(shim.pid)
        root = table.found.get(shim.pid)
        ticks, pages, number = 0 if root is None else root.child_cpu, 0, 0
        waiting = [shim.pid]
        while waiting:
            for child in table.children.get(waiting.pop(), ()):
                ticks += child.own_cpu + child.child_cpu
                pages += child.pages
                number += child.alive
                waiting.append(child.pid)
        return KernelUse(table.taken_ms, ticks * 1000 // _TICKS_PER_S, pages * _PAGE_BYTES, number)

    def _table(self, shim: int) -> _Pass:
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            last = self._last
            # A kernel that has started since the pass is not in it.
            if last is None or now_ms >= last.due_ms or shim not in last.found:
                found = all_processes()
                children: dict[int, list[Process]] = {}
                for process in found:
                    children.setdefault(process.parent, []).append(process)
                by_pid = {process.pid: process for process in found}
                last = self._last = _Pass(self._clock.now_ms(), now_ms + PASS_MS, children, by_pid)
            return last


def cpu_ms_of(groups: ControlGroups) -> int | None:
    """The CPU time of the members of control groups, ended ones included."""
    folder = groups.folders.get("cpu")
    if folder is None:
        return None
    if groups.version == 2:
        used = _figure(f"{folder}/cpu.stat", "usage_usec")
        return None if used is None else used // 1000
    text = read_text(f"{folder}/cpuacct.usage").strip()
    return int(text) // 1_000_000 if text.isdigit() else None


def memory_of(groups: ControlGroups) -> int | None:
    """The memory of control groups, without file contents that were not used lately."""
    folder = groups.folders.get("memory")
    if folder is None or groups.version not in _MEMORY_FILES:
        return None
    file, part = _MEMORY_FILES[groups.version]
    text = read_text(f"{folder}/{file}").strip()
    if not text.isdigit():
        return None
    return max(0, int(text) - (_figure(f"{folder}/memory.stat", part) or 0))


def processes_of(groups: ControlGroups) -> int | None:
    """The number of processes in control groups."""
    folder = groups.folders.get("cpu")
    lines = read_text(f"{folder}/cgroup.procs").split() if folder is not None else []
    return len(lines) or None


def _figure(path: str, name: str) -> int | None:
    """A figure of a file of lines "name figure"."""
    for line in read_text(path).splitlines():
        key, _, figure = line.partition(" ")
        if key == name and figure.strip().isdigit():
            return int(figure)
    return None
