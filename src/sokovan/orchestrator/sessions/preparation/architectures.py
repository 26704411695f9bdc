"""Which processor is usual in a scaling group: for sessions that name none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from sokovan.ports.environment import Clock
from sokovan.ports.storage import Store

# Machines of another kind join seldom; counting them for each request would cost more than the request.
KEPT_S = 30


class UsualArchitectures:
    """The architecture that most agents of a scaling group have, read now and then."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known: Mapping[str, str] = {}
        self._until_ms = 0
        # Requests that come together look once, not each for itself.
        self._looking = asyncio.Lock()

    async def current(self) -> Mapping[str, str]:
        """By scaling group; one without agents is not in it."""
        async with self._looking:
            now = self._clock.monotonic_ms()
            # Nothing is kept while there are no agents: the first one decides, and soon.
            if now >= self._until_ms:
                self._known = await self._read()
                self._until_ms = now + KEPT_S * 1000 if self._known else 0
        return self._known

    async def _read(self) -> Mapping[str, str]:
        counts = await self._store.read(lambda unit: unit.fleet.architectures())
        return {group: min(found, key=lambda one: (-found[one], one)) for group, found in counts.items()}
