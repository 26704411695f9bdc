"""Caches a summary of the agents of each scaling group."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from sokovan.domain.cluster.agent import RUNTIME_LABEL, can_run
from sokovan.domain.cluster.image import image_runtime
from sokovan.domain.session_request import SessionRequest
from sokovan.orchestrator.sessions.intake.kernel_groups import kernel_groups
from sokovan.orchestrator.sessions.intake.resource_calculator import named_slots
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.agents import AgentProfile, SlotRoom
from sokovan.ports.storage import Store

# Agents of a new kind join rarely; counting them for each request would cost more than the request.
KEPT_S = 30
# Free room changes with every session. It is read for requests that leave the choice of a group open.
ROOM_KEPT_S = 1


@dataclass(frozen=True, slots=True)
class Pool:
    """Summary of the agents of a scaling group.

    `architecture` is the most common one of `architectures`, `slots` those that any agent
    has. `memory` is the least memory of the agents that have a slot, by the amount that
    they have of it. `room` is by architecture and slot, None if it was not read; `taken`
    is what sessions submitted since then request. `open`: some agent does not isolate its
    kernels. `runtimes` are those that agents report, empty for one that reports none.
    """

    architecture: str
    slots: frozenset[str] = frozenset()
    memory: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    architectures: frozenset[str] = frozenset()
    room: Mapping[str, Mapping[str, SlotRoom]] | None = None
    taken: Mapping[str, int] = field(default_factory=dict)
    open: bool = False
    runtimes: frozenset[str] = frozenset()

    def runs(self, runtime: str, *, serves: bool) -> bool:
        """Whether some agent can run kernels of images of this runtime."""
        return not self.runtimes or any(can_run({RUNTIME_LABEL: own}, runtime, serves=serves) for own in self.runtimes)


class PoolCache:
    """Caches the pool of each scaling group for KEPT_S seconds.

    While `shared` is set, no pool that is read counts as open.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock, self.shared = store, clock, False
        self._known: Mapping[str, Pool] = {}
        self._until_ms = 0
        self._rooms: Mapping[tuple[str, str], Mapping[str, SlotRoom]] = {}
        self._rooms_until_ms = 0
        self._taken: dict[str, Counter[str]] = {}
        # Concurrent requests share one read.
        self._reading = asyncio.Lock()

    async def for_request(self, request: SessionRequest) -> Mapping[str, Pool]:
        """The pools, refreshed if the requested group seems to lack a slot or runtime.

        If the request names no group and there are several, with their room.
        """
        runtimes = frozenset(image_runtime(group.image) for group in kernel_groups(request))
        pools = await self.current(request.scaling_group, named_slots(request), runtimes)
        return pools if request.scaling_group or len(pools) < 2 else await self._with_room(pools)

    def take(self, group: str, slots: Mapping[str, int]) -> None:
        """Count a submitted session, until the room is read again."""
        self._taken.setdefault(group, Counter()).update(slots)

    async def current(
        self, group: str = "", needed: Collection[str] = (), runtimes: Collection[str] = ()
    ) -> Mapping[str, Pool]:
        """Pools by scaling group; groups without agents are left out.

        If `group` is not known to have the `needed` slots and `runtimes`, the cache is
        refreshed: an agent with them may have just joined.
        """
        async with self._reading:
            now = self._clock.monotonic_ms()
            # An empty result is not cached: the first agents usually join soon.
            if now >= self._until_ms or not self._has(group, needed, runtimes):
                self._known = await self._read()
                self._until_ms = now + KEPT_S * 1000 if self._known else 0
        return self._known

    def _has(self, group: str, needed: Collection[str], runtimes: Collection[str]) -> bool:
        """Whether the group has these; any group if none is given, all if it is not known."""

        def suits(pool: Pool) -> bool:
            return pool.slots.issuperset(needed) and all(pool.runs(one, serves=False) for one in runtimes)

        if not group:
            return any(map(suits, self._known.values()))
        return all(map(suits, [self._known[group]] if group in self._known else self._known.values()))

    async def _read(self) -> Mapping[str, Pool]:
        found = await self._store.read(lambda unit: unit.fleet.profiles())
        return {
            group: Pool(
                _most_common_architecture(profile),
                profile.slots,
                profile.memory,
                frozenset(profile.architectures),
                open=profile.open and not self.shared,
                runtimes=profile.runtimes,
            )
            for group, profile in found.items()
        }

    async def _with_room(self, pools: Mapping[str, Pool]) -> Mapping[str, Pool]:
        async with self._reading:
            now = self._clock.monotonic_ms()
            if now >= self._rooms_until_ms:
                self._rooms = await self._store.read(lambda unit: unit.fleet.rooms())
                self._rooms_until_ms, self._taken = now + ROOM_KEPT_S * 1000, {}
        room: dict[str, dict[str, Mapping[str, SlotRoom]]] = {group: {} for group in pools}
        for (group, architecture), slots in self._rooms.items():
            room.setdefault(group, {})[architecture] = slots
        return {
            group: replace(pool, room=room[group], taken=dict(self._taken.get(group, {})))
            for group, pool in pools.items()
        }


def _most_common_architecture(profile: AgentProfile) -> str:
    counts = profile.architectures
    return min(counts, key=lambda one: (-counts[one], one))
