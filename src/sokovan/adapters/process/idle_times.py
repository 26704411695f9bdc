"""How long kernels have been idle: no command runs in them, and they use no CPU.

Only kernels whose sessions have an idle timeout are measured, in one pass over the
process table for all of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from sokovan.adapters.process.shim.processes import Process, all_processes
from sokovan.ports.environment import Clock

SAMPLE_MS = 2_000
# A kernel that uses less of one core between two samples is idle: servers that only wait use some.
BUSY_PERCENT = 1
# A sample may take one part in so many of the time.
PAUSE_FACTOR = 100
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class _Activity:
    """The CPU use of one kernel at the last sample, and when it was last active."""

    shim: int
    sampled_ms: int
    active_ms: int
    ticks: int | None = None
    is_listed: bool = True

    def sample(self, ticks: int, now_ms: int, *, attached: bool) -> None:
        used_ms = None if self.ticks is None else (ticks - self.ticks) * 1000 // _TICKS_PER_S
        # The first sample has nothing to compare with.
        if attached or used_ms is None or used_ms * 100 >= BUSY_PERCENT * (now_ms - self.sampled_ms):
            self.active_ms = now_ms
        self.ticks, self.sampled_ms, self.is_listed = ticks, now_ms, False


class IdleTimes:
    """Measures the idle times of kernels, by the name of their folder.

    After a restart of the agent every kernel counts as active: idleness that was not
    observed is not assumed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._kernels: dict[str, _Activity] = {}
        self._commands: Counter[str] = Counter()
        self._due_ms = 0

    def idle_s(self, name: str, shim: int) -> int:
        """Whole seconds up to the last sample in which the kernel of this shim was idle."""
        with self._lock:
            known = self._kernels.get(name)
            if known is None or known.shim != shim:
                now_ms = self._clock.monotonic_ms()
                known = self._kernels[name] = _Activity(shim, now_ms, now_ms)
            known.is_listed = True
            return max(0, known.sampled_ms - known.active_ms) // 1000

    def sample(self) -> None:
        """Measure, if it is time, the kernels that were listed since the last sample."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if now_ms < self._due_ms:
                return
            self._kernels = {name: one for name, one in self._kernels.items() if one.is_listed}
            if self._kernels:
                ticks = cpu_ticks({one.shim for one in self._kernels.values()})
                for name, one in self._kernels.items():
                    one.sample(ticks.get(one.shim, 0), now_ms, attached=self._commands[name] > 0)
            took_ms = self._clock.monotonic_ms() - now_ms
            self._due_ms = now_ms + max(SAMPLE_MS, took_ms * PAUSE_FACTOR)

    @contextmanager
    def command(self, name: str) -> Iterator[None]:
        """While a command or shell runs in a kernel, it is active."""
        with self._lock:
            self._commands[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._commands[name] -= 1
                if not self._commands[name]:
                    del self._commands[name]
                if name in self._kernels:
                    self._kernels[name].active_ms = self._clock.monotonic_ms()


def cpu_ticks(shims: Collection[int]) -> Mapping[int, int]:
    """The CPU time of all processes below each shim, in clock ticks, ended ones too."""
    children: dict[int, list[Process]] = {}
    found: dict[int, int] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
        if process.pid in shims:
            found[process.pid] = process.child_cpu
    for shim in found:
        waiting = [shim]
        while waiting:
            for child in children.get(waiting.pop(), ()):
                found[shim] += child.own_cpu + child.child_cpu
                waiting.append(child.pid)
    return found
