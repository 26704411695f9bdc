"""Forgets proxies that have been silent for long."""

from __future__ import annotations

from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState

EVERY_MS = 3_600_000
# Usage that a proxy spooled must not be counted twice, so that its last number is kept for long.
FORGOTTEN_MS = 30 * 24 * 3_600_000


class SweepHandler:
    """Removes the last reports of proxies that no longer exist, once an hour."""

    name = "sweep"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer
        self._swept_ms = 0

    async def handle(self, cycle: ServingState) -> bool:
        """Forget old proxies if it is time."""
        if cycle.now_ms - self._swept_ms >= EVERY_MS:
            self._swept_ms = cycle.now_ms
            await self._writer.run(lambda unit: unit.proxies.expire(before_ms=unit.now_ms - FORGOTTEN_MS))
        return False

    def clear(self) -> None:
        """Sweep again in the next term."""
        self._swept_ms = 0
