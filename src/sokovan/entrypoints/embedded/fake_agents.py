"""Pretended agents beside real ones: taken in like any, and put into their racks.

They end with the process that pretends. What is on record of an earlier one is lost
at the next start, at once and for certain: there is no silence to wait out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sokovan.adapters.fake_agents.fleet import FakeFleet
from sokovan.adapters.fake_agents.shape import FleetShape
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import AgentRecord, Change, Device
from sokovan.orchestrator.agent_registry import IDENTITY_LABEL, AgentRegistry, AgentRejection, Arrival
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import Store, UnitOfWork

NO_MORE = "pretended-no-more"
_WHO = "sokovan up"
_WHY = "the process that pretended this agent has ended, and this one does not pretend it"
# So many agents are moved in one transaction: a start must not hold the store for long.
_BATCH = 128
# All pretended agents are one machine, whichever process pretends: none may take the place of a real one.
IDENTITY = "pretended"


class FakeEnrolment:
    """Takes in the agents of one fleet; when all are there, they stand in racks."""

    def __init__(self, registry: AgentRegistry, store: Store, shape: FleetShape) -> None:
        self._registry, self._store, self._shape = registry, store, shape
        self._admitted: set[AgentId] = set()

    def fleet(self, clock: Clock) -> FakeFleet:
        """The fleet whose agents are taken in here."""
        return FakeFleet(
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
        if isinstance(verdict, AgentRejection):
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


async def lose_leftovers(store: Store, shape: FleetShape | None) -> int:
    """Lose agents that an earlier process pretended and this one does not; how many.

    They come back without anything and are lost then. So what ran there is proved to be
    over, and a later fleet may use the names again, which it could not if they had left
    for good.
    """
    pretended = frozenset(info.agent_id for info in shape.agents()) if shape is not None else frozenset()
    every = await store.read(lambda unit: unit.fleet.all())
    left = [one.info.agent_id for one in every if _is_left_over(one) and one.info.agent_id not in pretended]
    for start in range(0, len(left), _BATCH):
        await store.run(partial(_lose, agents=left[start : start + _BATCH]))
    return len(left)


def _is_left_over(agent: AgentRecord) -> bool:
    info = agent.info
    if info.labels.get(IDENTITY_LABEL) != IDENTITY or info.status is AgentStatus.TERMINATED:
        return False
    return info.status is not AgentStatus.LOST or info.kernel_count > 0


async def _lose(unit: UnitOfWork, agents: Sequence[AgentId]) -> None:
    back, lost = (Change(_WHO, by, NO_MORE, _WHY) for by in (Cause.AGENT_REPORT, Cause.COORDINATOR))
    for agent_id in agents:
        known = await unit.fleet.get(agent_id)
        agent = await unit.fleet.enrol(known.info, back, devices=known.devices)
        if agent.info.status is AgentStatus.ALIVE:
            agent = await unit.fleet.move(agent, AgentTrigger.HEARTBEAT_MISSED, lost)
        await unit.fleet.move(agent, AgentTrigger.DECLARED_LOST, lost)
    entries = (AuditEntry(_WHO, "agent.lose", one, "done", detail={"reason": _WHY}) for one in agents)
    await unit.audit.append(*entries)
