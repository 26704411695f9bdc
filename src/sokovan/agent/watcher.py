"""Observes the runtime: ends as they are signalled, everything by polling.

A listing of all kernels takes the longer the more are kept; a signalled end is observed by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sokovan.agent.journal_records import KernelKey
from sokovan.agent.messages import Observed, RuntimeClaim
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelRuntime, KernelState, Observation

Claims: TypeAlias = Callable[[Sequence[Observation]], Awaitable[Mapping[KernelKey, RuntimeClaim]]]

FAST_PERIOD_S = 0.01
PERIOD_GROWTH = 1.5
# An observation may take one part in so many of the time: normally, and while changes keep arriving.
PAUSE_FACTOR = 20
PAUSE_FACTOR_BUSY = 2


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How often an agent observes its runtime.

    Every `period_s` while kernels run, every `idle_s` otherwise, and faster right after a
    start or stop; slow observations are followed by longer pauses. `changes` returns when
    a kernel has ended, for runtimes that can signal it: polling every `idle_s` is then a
    fallback. `ended` observes the kernels whose ends were signalled since its last call; a runtime
    that has it signals every end, also of a kernel that was never listed. `claims` returns the
    resources of listed kernels that this agent launched.
    """

    period_s: float = 0.05
    idle_s: float = 1.0
    changes: Callable[[], Awaitable[object]] | None = None
    ended: Callable[[], Awaitable[Sequence[Observation]]] | None = None
    claims: Claims | None = None


class Watcher:
    """Observes the runtime repeatedly; one observation at a time keeps the order."""

    def __init__(
        self,
        runtime: KernelRuntime,
        clock: Clock,
        options: WatchOptions,
        *,
        tick: Callable[[], int],
        submit: Callable[[Observed], None],
        log: Callable[[str], None],
    ) -> None:
        self._runtime, self._clock, self._options = runtime, clock, options
        self._tick, self._submit, self._log = tick, submit, log
        self._period_s = self._period_s_max = options.period_s
        self._pause_s = 0.0
        # Whether everything is to be observed, and when it is even without a reason.
        self._all_wanted, self._due_ms = True, 0.0
        self._has_change_signals = options.changes is not None
        self._wake = asyncio.Event()

    def observe_soon(self) -> None:
        """Observe everything at once, and again soon: a kernel is about to change."""
        if not self._has_change_signals:
            self._period_s = FAST_PERIOD_S
        self._all_wanted = True
        self._wake.set()

    def started(self) -> None:
        """A kernel runs: its end is observed when it is signalled, or soon."""
        if not self._has_change_signals or self._options.ended is None:
            self.observe_soon()

    async def run(self) -> None:
        """Observe until cancelled."""
        listening = asyncio.ensure_future(self._follow_changes())
        try:
            while True:
                self._wake.clear()
                if self._all_wanted or self._options.ended is None or self._clock.monotonic_ms() >= self._due_ms:
                    self._all_wanted = False
                    await self._observe()
                    self._due_ms = self._clock.monotonic_ms() + (self._pause_s + self._period_s) * 1000
                else:
                    await self._observe_ended(self._options.ended)
                await self._pause()
        finally:
            listening.cancel()

    async def _observe(self) -> None:
        # Taken before the listing: kernels started from here on may be missing in it.
        begun, began_ms = self._tick(), self._clock.monotonic_ms()
        try:
            observations = tuple(await self._runtime.observe())
            claims = await self._options.claims(observations) if self._options.claims else {}
        except Exception as problem:  # noqa: BLE001  # a failed observation is retried, it does not end the agent
            self._log(f"cannot observe the runtime: {problem!r}")
            self._period_s = self._period_s_max = self._options.idle_s
            return
        took_s = (self._clock.monotonic_ms() - began_ms) / 1000
        busy = any(one.state is not KernelState.EXITED for one in observations) and not self._has_change_signals
        self._period_s_max = max(self._options.period_s if busy else self._options.idle_s, took_s * PAUSE_FACTOR)
        self._pause_s = took_s * PAUSE_FACTOR_BUSY
        self._submit(Observed(observations, begun, self._clock.monotonic_ms(), claims))

    async def _observe_ended(self, ended: Callable[[], Awaitable[Sequence[Observation]]]) -> None:
        begun, began_ms = self._tick(), self._clock.monotonic_ms()
        try:
            observations = tuple(await ended())
        except Exception as problem:  # noqa: BLE001  # the listing that follows shows it, too
            self._log(f"cannot observe ended kernels: {problem!r}")
            self.observe_soon()
            return
        now_ms = self._clock.monotonic_ms()
        self._pause_s = (now_ms - began_ms) / 1000 * PAUSE_FACTOR_BUSY
        if observations:
            self._submit(Observed(observations, begun, now_ms, complete=False))

    async def _pause(self) -> None:
        await self._clock.sleep(self._pause_s)
        left_s = max(0.0, (self._due_ms - self._clock.monotonic_ms()) / 1000)
        signalled = asyncio.ensure_future(self._wake.wait())
        elapsed = asyncio.ensure_future(self._clock.sleep(left_s))
        try:
            await asyncio.wait({signalled, elapsed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (signalled, elapsed):
                task.cancel()
        if not self._wake.is_set():
            self._all_wanted = True
            self._period_s = min(self._period_s_max, self._period_s * PERIOD_GROWTH)

    async def _follow_changes(self) -> None:
        while self._options.changes is not None:
            try:
                await self._options.changes()
            except Exception as problem:  # noqa: BLE001  # polling continues without change signals
                self._log(f"no change signals from the runtime any more: {problem!r}")
                self._has_change_signals = False
                return
            if self._options.ended is None:
                self.observe_soon()
            else:
                self._wake.set()
