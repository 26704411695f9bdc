"""Enrols fake agents and arranges them in racks.

Fake agents end with their process. The next start declares those of an earlier process
lost at once, without waiting for a heartbeat timeout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sokovan.agent.fake.fleet import FakeFleet
from sokovan.agent.fake.shape import ROOT as FLEET_ROOT
from sokovan.agent.fake.shape import FleetShape
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.image import HOST_IMAGE
from sokovan.domain.cluster.topology_rules import Topology
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import AgentRecord, Change, Device
from sokovan.orchestrator.agent_registry import IDENTITY_LABEL, AgentRegistry, AgentRejection, EnrolmentRequest
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import Store, UnitOfWork

FAKE_ENDED = "fake-agent-ended"
_ACTOR = "sokovan up"
_REASON = "the process that simulated this fake agent has ended"
# Agents per transaction: a start must not lock the store for long.
_BATCH = 128
# All fake agents share one identity, so that none replaces a real agent. Stored by earlier versions, hence the name.
IDENTITY = "pretended"
_EARLIER_ROOT = "pretended"


class FakeEnrolment:
    """Enrols the agents of one fleet; creates the racks once all are enrolled."""

    def __init__(self, registry: AgentRegistry, store: Store, shape: FleetShape) -> None:
        self._registry, self._store, self._shape = registry, store, shape
        self._admitted: set[AgentId] = set()

    def fleet(self, clock: Clock) -> FakeFleet:
        """The fleet whose agents enrol here."""
        return FakeFleet(
            clock,
            self._shape,
            admit=self.admit,
            on_heartbeat=lambda state, images: self._registry.heartbeat(state.agent_id, state, images),
        )

    async def admit(self, info: AgentInfo, devices: Sequence[Device], kernels: Sequence[tuple[KernelId, int]]) -> int:
        """Enrol an agent of this process, without a credential. Raises Conflict."""
        arrival = EnrolmentRequest(
            agent_id=info.agent_id,
            identity=IDENTITY,
            slots=info.available_slots,
            devices=tuple(devices),
            architecture=info.architecture,
            scaling_group=info.scaling_group,
            labels=info.labels,
            kernels_max=info.kernels_max,
            kernels=tuple(kernels),
            images=(HOST_IMAGE,),
        )
        verdict = await self._registry.admit(arrival)
        if isinstance(verdict, AgentRejection):
            raise Conflict(verdict.message)
        self._admitted.add(info.agent_id)
        if len(self._admitted) == self._shape.count:
            await self._store.run(lambda unit: replace_racks(unit, self._shape.topology()))
        return verdict.incarnation


async def replace_racks(unit: UnitOfWork, racks: Topology) -> None:
    """Replace the racks of an earlier fleet; a topology of an administrator is kept."""
    if all(_is_of_a_fleet(known) for known in await unit.catalog.all(Topology)):
        await unit.catalog.put(racks)


def _is_of_a_fleet(topology: Topology) -> bool:
    """Whether a topology consists of the racks of a fleet below their root."""
    names = {node.name: node.members for node in topology.hypernodes}
    roots = [root for root in (FLEET_ROOT, _EARLIER_ROOT) if root in names]
    below = {member for root in roots for member in (root, *names[root])}
    return names.keys() <= below and all(rule.label is None for rule in topology.tiers)


async def declare_previous_fakes_lost(store: Store, shape: FleetShape | None) -> int:
    """Declare fake agents of an earlier process lost; returns how many.

    They enrol without kernels and are then lost. This proves that their kernels have ended
    and keeps the names usable for a later fleet, unlike TERMINATED.
    """
    current = frozenset(info.agent_id for info in shape.agents()) if shape is not None else frozenset()
    every = await store.read(lambda unit: unit.fleet.all())
    left = [one.info.agent_id for one in every if _is_previous_fake(one) and one.info.agent_id not in current]
    for start in range(0, len(left), _BATCH):
        await store.run(partial(_lose, agents=left[start : start + _BATCH]))
    return len(left)


def _is_previous_fake(agent: AgentRecord) -> bool:
    info = agent.info
    if info.labels.get(IDENTITY_LABEL) != IDENTITY or info.status is AgentStatus.TERMINATED:
        return False
    return info.status is not AgentStatus.LOST or info.kernel_count > 0


async def _lose(unit: UnitOfWork, agents: Sequence[AgentId]) -> None:
    back, lost = (Change(_ACTOR, by, FAKE_ENDED, _REASON) for by in (Cause.AGENT_REPORT, Cause.COORDINATOR))
    for agent_id in agents:
        known = await unit.fleet.get(agent_id)
        info = replace(known.info, labels=known.reported_labels)
        agent = await unit.fleet.enrol(info, back, devices=known.devices)
        if agent.info.status is AgentStatus.ALIVE:
            agent = await unit.fleet.move(agent, AgentTrigger.HEARTBEAT_MISSED, lost)
        await unit.fleet.move(agent, AgentTrigger.DECLARED_LOST, lost)
    entries = (AuditEntry(_ACTOR, "agent.lose", one, "done", detail={"reason": _REASON}) for one in agents)
    await unit.audit.append(*entries)
