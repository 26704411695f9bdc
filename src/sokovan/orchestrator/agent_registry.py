"""Agents that come and speak: admitted with an incarnation, heard for what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.image import ARCHITECTURE_DEFAULT
from sokovan.domain.errors import InvalidInput, ObjectNotFound
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, AgentId, KernelId, ScalingGroupName
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import ALIVE, KernelStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import AgentRecord, Change, Device
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.agent_recovery import came_back
from sokovan.orchestrator.image_reports import ImageReports
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.agent_states import AgentState, AgentStateCache
from sokovan.ports.environment import Clock
from sokovan.ports.hints import Hints
from sokovan.ports.storage import Store, UnitOfWork

SESSIONS_HINT = "sessions"
SUPERSEDED = "superseded"
AWAY = frozenset({AgentStatus.SUSPECT, AgentStatus.LOST})
LEFT = "agent-left"
NAME_TAKEN = "name-taken"
# The label that keeps an agent's identity.
IDENTITY_LABEL = "sokovan.identity"
# A store that was set back may be this many incarnations behind an agent, and catches up.
_INCARNATIONS_BEHIND_MAX = 10_000
_NOT_BEGUN = frozenset(ALIVE) - {KernelStatus.RUNNING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An agent that presents itself.

    `incarnation` is the one that it was admitted as before, 0 if its process is new.
    `kernels` are those that it answers for, by attempt: what it found on its machine.
    `identity` tells it from others of the same name; an agent may have none.
    """

    agent_id: AgentId
    identity: str = ""
    incarnation: int = 0
    slots: ResourceSlot
    devices: tuple[Device, ...] = ()
    architecture: str = ARCHITECTURE_DEFAULT
    scaling_group: ScalingGroupName = DEFAULT_SCALING_GROUP
    labels: Mapping[str, str] = field(default_factory=dict)
    kernels_max: int | None = None
    kernels: tuple[tuple[KernelId, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AgentAdmission:
    """An agent is taken in, as this incarnation."""

    incarnation: int
    draining: bool = False


@dataclass(frozen=True, slots=True)
class AgentRejection:
    """An agent is not taken in; if `final`, dialling again is of no use."""

    code: str
    message: str
    final: bool = True


class AgentRegistry:
    """Takes agents in and listens to them. Any number of managers may have one.

    `fresh_s` is for how long a heartbeat counts. An agent that was silent for longer may
    have been moved meanwhile.
    """

    def __init__(
        self,
        store: Store,
        agents: AgentStateCache,
        *,
        hints: Hints,
        clock: Clock,
        images: ImageReports | None = None,
        fresh_s: float = 15.0,
    ) -> None:
        self.images = images or ImageReports()
        self._store, self._agents, self._hints, self._clock = store, agents, hints, clock
        self._fresh_s = fresh_s
        self._heard: dict[AgentId, tuple[AgentState | None, int]] = {}

    async def admit(self, arrival: Arrival) -> AgentAdmission | AgentRejection:
        """Enrol a new process, or welcome back one that is known. Raises StoreUnavailable."""
        try:
            # A manager that starts again meets all its agents at once.
            verdict: AgentAdmission | AgentRejection = await self._store.run_batched(_admitted_together, arrival)
        except (ObjectNotFound, InvalidInput) as problem:  # a scaling group that somebody may yet make
            return AgentRejection(problem.code, problem.message, final=False)
        if isinstance(verdict, AgentAdmission):
            # To be admitted is to be heard: the first heartbeat need not ask the store again.
            self._heard[arrival.agent_id] = (None, self._clock.monotonic_ms())
            await self._hints.set(SESSIONS_HINT)
        return verdict

    async def heard(self, agent_id: AgentId, state: AgentState, images: Sequence[ImageReport] = ()) -> None:
        """Keep a heartbeat; wake the coordinator if it says anything new.

        One that says nothing new touches neither the store nor the hint.
        """
        now_ms = self._clock.monotonic_ms()
        state = replace(state, heard_ms=self._clock.now_ms())
        known = self._heard.get(agent_id)
        if not await self._agents.put(state, ttl_s=self._fresh_s):
            return
        self._heard[agent_id] = (state, now_ms)
        image_moved = self.images.take_in(agent_id, state.incarnation, images)
        before, heard_ms = known if known is not None else (None, None)
        silent = heard_ms is None or now_ms - heard_ms >= self._fresh_s * 1000
        returned = silent and await self._returned(agent_id, state.incarnation)
        same = before is not None and (before.incarnation, before.kernels) == (state.incarnation, state.kernels)
        if returned or image_moved or not same:
            await self._hints.set(SESSIONS_HINT)

    async def _returned(self, agent_id: AgentId, incarnation: int) -> bool:
        """Whether an agent had been moved for its silence; it is moved back.

        Looked at first, written only if so: many agents may be silent at once, because we
        were.
        """
        if not await self._store.read(lambda unit: _is_away(unit, agent_id, incarnation)):
            return False
        return await self._store.run(lambda unit: _moved_back(unit, agent_id, incarnation))


async def _admitted_together(
    unit: UnitOfWork, arrivals: Sequence[Arrival]
) -> list[AgentAdmission | AgentRejection | Exception]:
    # In the order of their ids: two managers that meet the same agents lock them in the same order.
    verdicts = {
        place: await _admitted(unit, arrivals[place])
        for place in sorted(range(len(arrivals)), key=lambda place: arrivals[place].agent_id)
    }
    return [verdicts[place] for place in range(len(arrivals))]


async def _admitted(unit: UnitOfWork, arrival: Arrival) -> AgentAdmission | AgentRejection:
    known = await _known(unit, arrival.agent_id)
    if known is not None and known.info.status is AgentStatus.TERMINATED:
        return AgentRejection(LEFT, f"agent {arrival.agent_id} has left for good; enrol the machine under a new id")
    if known is not None and await _is_taken(unit, known, arrival.identity):
        return AgentRejection(
            NAME_TAKEN,
            f"another machine or folder is agent {arrival.agent_id}; give this one a name of its own, or wait until"
            " the other is lost and holds nothing",
        )
    incarnation = 0 if known is None else known.info.incarnation
    if 0 < arrival.incarnation < incarnation:
        message = f"incarnation {incarnation} of this agent has enrolled, this is {arrival.incarnation}"
        return AgentRejection(SUPERSEDED, message)
    if known is not None and arrival.incarnation == incarnation:
        await came_back(unit, arrival.agent_id)
        agent = await unit.fleet.get(arrival.agent_id)
    elif arrival.incarnation - incarnation > _INCARNATIONS_BEHIND_MAX:
        return AgentRejection(SUPERSEDED, f"incarnation {arrival.incarnation} is beyond belief: {incarnation} is known")
    else:
        agent = await _enrolled(unit, arrival)
    return AgentAdmission(agent.info.incarnation, draining=agent.info.status is AgentStatus.DRAINING)


async def _is_taken(unit: UnitOfWork, known: AgentRecord, identity: str) -> bool:
    """Whether the name is another's, who is there or may still run something.

    A new incarnation answers for what it finds on its machine. Another machine would find
    nothing, and what runs on the first one would be given away.
    """
    before = known.info.labels.get(IDENTITY_LABEL, "")
    if before in {"", identity}:
        return False
    return known.info.status is not AgentStatus.LOST or bool(await unit.ledger.kernels_on(known.info.agent_id))


async def _known(unit: UnitOfWork, agent_id: AgentId) -> AgentRecord | None:
    try:
        return await unit.fleet.get(agent_id)
    except ObjectNotFound:
        return None


async def _enrolled(unit: UnitOfWork, arrival: Arrival) -> AgentRecord:
    """A new incarnation, above whatever the agent has been told before."""
    info = AgentInfo(
        agent_id=arrival.agent_id,
        available_slots=arrival.slots,
        architecture=arrival.architecture,
        labels=_labels(arrival),
        kernels_max=arrival.kernels_max,
        scaling_group=arrival.scaling_group,
    )
    change = Change(f"agent {arrival.agent_id}"[:128], Cause.AGENT_REPORT, "enrolled")
    adopted = await _adopted(unit, arrival)
    agent = await unit.fleet.enrol(info, change, devices=arrival.devices, adopted=adopted)
    while agent.info.incarnation <= arrival.incarnation:
        agent = await unit.fleet.enrol(info, change, devices=arrival.devices, adopted=adopted)
    return agent


def _labels(arrival: Arrival) -> dict[str, str]:
    """The agent's own labels; its identity is none that an operator may set."""
    labels = {name: value for name, value in arrival.labels.items() if name != IDENTITY_LABEL}
    return {**labels, IDENTITY_LABEL: arrival.identity} if arrival.identity else labels


async def _adopted(unit: UnitOfWork, arrival: Arrival) -> list[tuple[KernelId, int]]:
    """The kernels that belong to the new incarnation.

    Those that the agent found, and those that have not begun: a request that an earlier
    incarnation may still get is refused, and the new one is asked again.
    """
    held = await unit.ledger.kernels_on(arrival.agent_id)
    waiting = [(kernel.kernel_id, kernel.attempt) for kernel in held if kernel.status in _NOT_BEGUN]
    return list(dict.fromkeys((*arrival.kernels, *waiting)))


async def _is_away(unit: UnitOfWork, agent_id: AgentId, incarnation: int) -> bool:
    known = await _known(unit, agent_id)
    return known is not None and known.info.incarnation == incarnation and known.info.status in AWAY


async def _moved_back(unit: UnitOfWork, agent_id: AgentId, incarnation: int) -> bool:
    return await _is_away(unit, agent_id, incarnation) and await came_back(unit, agent_id)
