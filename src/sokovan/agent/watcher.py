"""Polls the runtime; faster after a start or stop."""

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
    fallback. `claims` returns the resources of listed kernels that this agent launched.
    """

    period_s: float = 0.05
    idle_s: float = 1.0
    changes: Callable[[], Awaitable[object]] | None = None
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
        self._has_change_signals = options.changes is not None
        self._wake = asyncio.Event()

    def observe_soon(self) -> None:
        """Observe at once, and again soon: a kernel is about to change."""
        if not self._has_change_signals:
            self._period_s = FAST_PERIOD_S
        self._wake.set()

    async def run(self) -> None:
        """Observe until cancelled."""
        listening = asyncio.ensure_future(self._follow_changes())
        try:
            while True:
                self._wake.clear()
                await self._observe()
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

    async def _pause(self) -> None:
        await self._clock.sleep(self._pause_s)
        signalled = asyncio.ensure_future(self._wake.wait())
        elapsed = asyncio.ensure_future(self._clock.sleep(self._period_s))
        try:
            await asyncio.wait({signalled, elapsed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (signalled, elapsed):
                task.cancel()
        if not self._wake.is_set():
            self._period_s = min(self._period_s_max, self._period_s * PERIOD_GROWTH)

    async def _follow_changes(self) -> None:
        while self._options.changes is not None:
            try:
                await self._options.changes()
            except Exception as problem:  # noqa: BLE001  # polling continues without change signals
                self._log(f"no change signals from the runtime any more: {problem!r}")
                self._has_change_signals = False
                return
            self.observe_soon()
