"""Pretended agents beside real ones: taken in like any, and put into their racks."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.adapters.pretend.fleet import PretendFleet
from sokovan.adapters.pretend.shape import FleetShape
from sokovan.domain.agent import AgentInfo
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.record import Device
from sokovan.domain.topology import HyperNode
from sokovan.orchestrator.fleet import AgentRegistry, Arrival, Rejection
from sokovan.ports.environment import Clock
from sokovan.ports.storage import Store, UnitOfWork

# All pretended agents are one machine, whichever process pretends: none may take the place of a real one.
IDENTITY = "pretended"


class PretendedEnrolment:
    """Takes in the agents of one fleet; when all are there, they stand in racks."""

    def __init__(self, registry: AgentRegistry, store: Store, shape: FleetShape) -> None:
        self._registry, self._store, self._shape = registry, store, shape
        self._admitted: set[AgentId] = set()

    def fleet(self, clock: Clock) -> PretendFleet:
        """The fleet whose agents are taken in here."""
        return PretendFleet(
            clock,
            self._shape,
            admit=self.admit,
            heard=lambda state, images: self._registry.heard(state.agent_id, state, images),
        )

    async def admit(self, info: AgentInfo, devices: Sequence[Device], kernels: Sequence[tuple[KernelId, int]]) -> int:
        """Take in an agent of this process, which needs no credential. Raises Conflict."""
        arrival = Arrival(
            agent_id=info.agent_id,
            identity=IDENTITY,
            slots=info.available_slots,
            devices=tuple(devices),
            architecture=info.architecture,
            scaling_group=info.scaling_group,
            labels=info.labels,
            kernels_max=info.kernels_max,
            kernels=tuple(kernels),
        )
        verdict = await self._registry.admit(arrival)
        if isinstance(verdict, Rejection):
            raise Conflict(verdict.message)
        self._admitted.add(info.agent_id)
        if len(self._admitted) == self._shape.count:
            await self._store.run(lambda unit: replace_racks(unit, self._shape.hypernodes()))
        return verdict.incarnation


async def replace_racks(unit: UnitOfWork, hypernodes: Sequence[HyperNode]) -> None:
    """Put racks in the place of an earlier fleet's; the last one is above the others."""
    known = {one.name: one for one in await unit.catalog.all(HyperNode)}
    above = known.get(hypernodes[-1].name)
    if above is not None:
        for name in (above.name, *(member for member in above.members if member in known)):
            await unit.catalog.remove(HyperNode, name)
    await unit.catalog.put(*hypernodes)
