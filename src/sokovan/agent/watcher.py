"""The eyes of an agent, open wider when something is about to change."""

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

QUICK_S = 0.01
SLOWER = 1.5
# A look may take one part in so many of the time: as a rule, and when there is news all the time.
REST_TIMES = 20
BREATH_TIMES = 2


@dataclass(frozen=True, slots=True)
class RuntimeView:
    """How an agent looks.

    Every `period_s` while something runs, every `idle_s` while nothing does, and
    quickly after something was started or stopped; but a look that takes long is
    followed by a long rest. `changes` returns when a kernel has ended, where the
    runtime can tell: then a look every `idle_s` is for good measure only. `claims` says
    which of the kernels that are shown were launched by this agent, and with what.
    """

    period_s: float = 0.05
    idle_s: float = 1.0
    changes: Callable[[], Awaitable[object]] | None = None
    claims: Claims | None = None


class Watcher:
    """Observes again and again; one observation at a time, so that they come in order."""

    def __init__(
        self,
        runtime: KernelRuntime,
        clock: Clock,
        sight: RuntimeView,
        *,
        tick: Callable[[], int],
        submit: Callable[[Observed], None],
        tell: Callable[[str], None],
    ) -> None:
        self._runtime, self._clock, self._sight = runtime, clock, sight
        self._tick, self._submit, self._tell = tick, submit, tell
        self._pace_s = self._rest_s = sight.period_s
        self._breath_s = 0.0
        self._is_told = sight.changes is not None
        self._wake = asyncio.Event()

    def look(self) -> None:
        """Look at once, and again soon: something is about to change."""
        if not self._is_told:
            self._pace_s = QUICK_S
        self._wake.set()

    async def run(self) -> None:
        """Look for ever."""
        told = asyncio.ensure_future(self._listen())
        try:
            while True:
                self._wake.clear()
                await self._observe()
                await self._pause()
        finally:
            told.cancel()

    async def _observe(self) -> None:
        # Before the runtime is asked: what is started from here on may be missing in its answer.
        begun, began_ms = self._tick(), self._clock.monotonic_ms()
        try:
            observations = tuple(await self._runtime.observe())
            claims = await self._sight.claims(observations) if self._sight.claims else {}
        except Exception as problem:  # noqa: BLE001  # an agent that cannot look now must look again, not die
            self._tell(f"the machine cannot be looked at: {problem!r}")
            self._pace_s = self._rest_s = self._sight.idle_s
            return
        took_s = (self._clock.monotonic_ms() - began_ms) / 1000
        busy = any(seen.state is not KernelState.EXITED for seen in observations) and not self._is_told
        self._rest_s = max(self._sight.period_s if busy else self._sight.idle_s, took_s * REST_TIMES)
        self._breath_s = took_s * BREATH_TIMES
        self._submit(Observed(observations, begun, self._clock.monotonic_ms(), claims))

    async def _pause(self) -> None:
        await self._clock.sleep(self._breath_s)
        signalled = asyncio.ensure_future(self._wake.wait())
        elapsed = asyncio.ensure_future(self._clock.sleep(self._pace_s))
        try:
            await asyncio.wait({signalled, elapsed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (signalled, elapsed):
                task.cancel()
        if not self._wake.is_set():
            self._pace_s = min(self._rest_s, self._pace_s * SLOWER)

    async def _listen(self) -> None:
        while self._sight.changes is not None:
            try:
                await self._sight.changes()
            except Exception as problem:  # noqa: BLE001  # looking by the clock goes on without it
                self._tell(f"changes of the machine are not told any more: {problem!r}")
                self._is_told = False
                return
            self.look()
