"""Looks at what time alone changes: silence, deadlines, leftovers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sokovan.domain.errors import FencedOut, StoreUnavailable
from sokovan.orchestrator.handler import DeadlinePassed, Handler, within
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext


class PeriodicSweep:
    """Runs its handlers every second or so; one that fails or hangs stops no other.

    Together they have `handler_s`, each the same share. `failed` hears of one that
    raised, by its name.
    """

    name = "sweep"

    def __init__(
        self,
        bench: HandlerContext,
        handlers: Sequence[Handler[Cycle]],
        *,
        failed: Callable[[str, Exception], None],
        every_s: float = 1.0,
        handler_s: float = 60.0,
    ) -> None:
        self._bench, self._handlers, self._every_ms = bench, tuple(handlers), round(every_s * 1000)
        self._share_s, self._failed = handler_s / max(1, len(self._handlers)), failed
        self._swept_ms: int | None = None

    def clear(self) -> None:
        """The next round sweeps."""
        self._swept_ms = None

    def next_due_s(self) -> float:
        """How long until the next sweep."""
        if self._swept_ms is None:
            return 0.0
        return max(0, self._swept_ms + self._every_ms - self._bench.clock.monotonic_ms()) / 1000

    async def handle(self, seen: Cycle) -> bool:
        """Sweep, if it is time for that."""
        if not seen.long and self.next_due_s() > 0:
            return False
        self._swept_ms = self._bench.clock.monotonic_ms()
        moved = False
        for handler in self._handlers:
            try:
                moved |= await within(handler.handle(seen), self._share_s, clock=self._bench.clock)
            except (FencedOut, StoreUnavailable):
                raise
            except Exception as error:  # noqa: BLE001  # the others must have their turn
                kind = "timeout" if isinstance(error, DeadlinePassed) else "error"
                self._bench.telemetry.count("handler_failures_total", handler=handler.name, kind=kind)
                self._failed(handler.name, error)
        return moved
