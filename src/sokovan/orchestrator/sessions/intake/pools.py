"""What the agents of scaling groups are: the usual processor, and slots they have."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sokovan.ports.environment import Clock
from sokovan.ports.repositories.agents import AgentProfile
from sokovan.ports.storage import Store

# Machines of another kind join seldom; counting them for each request would cost more than the request.
KEPT_S = 30


@dataclass(frozen=True, slots=True)
class Pool:
    """The agents of a scaling group, taken together.

    `architecture` is what most of them have, `slots` what any of them has.
    """

    architecture: str
    slots: frozenset[str] = frozenset()


class KnownPools:
    """What there is in each scaling group, read now and then."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known: Mapping[str, Pool] = {}
        self._until_ms = 0
        # Requests that come together look once, not each for itself.
        self._looking = asyncio.Lock()

    async def current(self, group: str = "", needed: Collection[str] = ()) -> Mapping[str, Pool]:
        """By scaling group; one without agents is not in it.

        Whoever needs slots of a group that are not known there is answered by a fresh
        look: the machine that has them may have joined a moment ago.
        """
        async with self._looking:
            now = self._clock.monotonic_ms()
            # Nothing is kept while there are no agents: the first one decides, and soon.
            if now >= self._until_ms or not self._has(group, needed):
                self._known = await self._read()
                self._until_ms = now + KEPT_S * 1000 if self._known else 0
        return self._known

    def _has(self, group: str, needed: Collection[str]) -> bool:
        """Whether the group is known to have these, or every group if this one is not known."""
        pools = [self._known[group]] if group in self._known else self._known.values()
        return all(pool.slots.issuperset(needed) for pool in pools)

    async def _read(self) -> Mapping[str, Pool]:
        found = await self._store.read(lambda unit: unit.fleet.profiles())
        return {group: Pool(_usual(makeup), makeup.slots) for group, makeup in found.items()}


def _usual(makeup: AgentProfile) -> str:
    counts = makeup.architectures
    return min(counts, key=lambda one: (-counts[one], one))
