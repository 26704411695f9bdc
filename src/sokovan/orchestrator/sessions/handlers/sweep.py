"""Looks at what time alone changes: silence, deadlines, leftovers."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.errors import FencedOut, StoreUnavailable
from sokovan.orchestrator.handler import Handler
from sokovan.orchestrator.sessions.rounds import Round, Workbench


class Sweep:
    """Runs its handlers every second or so; one that fails stops no other."""

    name = "sweep"

    def __init__(self, bench: Workbench, handlers: Sequence[Handler[Round]], *, every_s: float = 1.0) -> None:
        self._bench, self._handlers, self._every_ms = bench, tuple(handlers), round(every_s * 1000)
        self._swept_ms: int | None = None

    def clear(self) -> None:
        """The next round sweeps."""
        self._swept_ms = None

    def next_due_s(self) -> float:
        """How long until the next sweep."""
        if self._swept_ms is None:
            return 0.0
        return max(0, self._swept_ms + self._every_ms - self._bench.clock.monotonic_ms()) / 1000

    async def handle(self, seen: Round) -> bool:
        """Sweep, if it is time for that."""
        if not seen.long and self.next_due_s() > 0:
            return False
        self._swept_ms = self._bench.clock.monotonic_ms()
        moved = False
        for handler in self._handlers:
            try:
                moved |= await handler.handle(seen)
            except (FencedOut, StoreUnavailable):
                raise
            except Exception:  # noqa: BLE001  # the others must have their turn; the figure tells of it
                self._bench.telemetry.count("handler_failures_total", handler=handler.name)
        return moved
