"""Admits agents, assigns incarnations, and processes their heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sokovan.domain.cluster.agent import AgentInfo, claiming_labels, require_reported_labels
from sokovan.domain.errors import InvalidInput, ObjectNotFound
from sokovan.domain.ids import (
    ARCHITECTURE_DEFAULT,
    DEFAULT_SCALING_GROUP,
    AgentId,
    KernelId,
    ScalingGroupName,
    is_name,
)
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import ALIVE, KernelStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import AgentRecord, Change, Device
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.agent_recovery import AWAY, rejoin
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.image_reports import ImageReports
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.agent_states import AgentState, AgentStateCache
from sokovan.ports.environment import Clock
from sokovan.ports.hints import Hints
from sokovan.ports.repositories.agents import NewAgent
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.wire.frames import SUPERSEDED

LEFT = "agent-left"
NAME_TAKEN = "name-taken"
# The agent label that stores its identity.
IDENTITY_LABEL = "sokovan.identity"
# The agent label that stores the process that was enrolled last.
PROCESS_LABEL = "sokovan.process"
# A store restored from a backup may be this many incarnations behind an agent, and catches up.
_INCARNATIONS_BEHIND_MAX = 10_000
_NOT_STARTED = frozenset(ALIVE) - {KernelStatus.RUNNING}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolmentRequest:
    """The request of an agent to be admitted.

    `incarnation` is the one it was admitted with before, 0 for a new process. `kernels` are
    those found on its machine, with their attempt, not all of them if `partial`. `identity` distinguishes it from other
    agents of the same name, `process` from other processes of this one; both may be empty. `images` are those that it
    can use at once. `claims` are the labels that hold claims which wait for an approval.
    """

    agent_id: AgentId
    identity: str = ""
    process: str = ""
    incarnation: int = 0
    slots: ResourceSlot
    devices: tuple[Device, ...] = ()
    architecture: str = ARCHITECTURE_DEFAULT
    scaling_group: ScalingGroupName = DEFAULT_SCALING_GROUP
    labels: Mapping[str, str] = field(default_factory=dict)
    kernels_max: int | None = None
    kernels: tuple[tuple[KernelId, int], ...] = ()
    partial: bool = False
    shard: str | None = None
    images: tuple[str, ...] = ()
    claims: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentAdmission:
    """The agent is admitted with this incarnation."""

    incarnation: int
    draining: bool = False


@dataclass(frozen=True, slots=True)
class AgentRejection:
    """The agent is rejected; `final` means that it must not retry."""

    code: str
    message: str
    final: bool = True


def _is_news(before: AgentState, state: AgentState) -> bool:
    """Whether a heartbeat has more than the one before it.

    An ended kernel that is no longer listed was confirmed, which is none.
    """
    if before.incarnation != state.incarnation or before.faults != state.faults:
        return True
    old, new = frozenset(before.kernels), frozenset(state.kernels)
    return not new <= old or any(one.exit_code is None for one in old - new)


class AgentRegistry:
    """Admits agents and receives heartbeats; every manager has one.

    `fresh_s` is how long a heartbeat is valid. An agent without one for longer may have
    been declared SUSPECT or LOST.
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
        # The images that were stored, with the incarnation that has them.
        self._stored: dict[AgentId, tuple[int, frozenset[str]]] = {}

    async def admit(self, request: EnrolmentRequest) -> AgentAdmission | AgentRejection:
        """Enrol a new process, or readmit a known one. Raises StoreUnavailable."""
        try:
            # After a restart of the manager all agents reconnect at once.
            verdict: AgentAdmission | AgentRejection = await self._store.run_batched(admit_together, request)
        except (ObjectNotFound, InvalidInput) as problem:  # the scaling group may still be created
            return AgentRejection(problem.code, problem.message, final=False)
        if isinstance(verdict, AgentAdmission):
            # An admission counts as a heartbeat, so that the first one need not read the store.
            self._heard[request.agent_id] = (None, self._clock.monotonic_ms())
            await self._hints.set(SESSIONS_HINT)
        return verdict

    async def heartbeat(self, agent_id: AgentId, state: AgentState, images: Sequence[ImageReport] = ()) -> None:
        """Store a heartbeat; wake the coordinator if it contains a change.

        One without a change touches neither the store nor the hint.
        """
        now_ms = self._clock.monotonic_ms()
        state = replace(state, heard_ms=self._clock.now_ms())
        known = self._heard.get(agent_id)
        if not await self._agents.put(state, ttl_s=self._fresh_s):
            return
        self._heard[agent_id] = (state, now_ms)
        image_changed = self.images.update(agent_id, state.incarnation, images)
        await self._store_images(agent_id, state.incarnation)
        before, heard_ms = known if known is not None else (None, None)
        overdue = heard_ms is None or now_ms - heard_ms >= self._fresh_s * 1000
        returned = overdue and await self._rejoin_if_away(agent_id, state.incarnation)
        if returned or image_changed or before is None or _is_news(before, state):
            await self._hints.set(SESSIONS_HINT)

    async def _store_images(self, agent_id: AgentId, incarnation: int) -> None:
        """Store the images that became ready, so that placement can prefer the agent."""
        ready = self.images.ready(agent_id, incarnation)
        if ready and self._stored.get(agent_id) != (incarnation, ready):
            # After a restart of the manager all agents report at once.
            await self._store.run_batched(_store_batch, (agent_id, incarnation, ready))
            self._stored[agent_id] = (incarnation, ready)

    async def _rejoin_if_away(self, agent_id: AgentId, incarnation: int) -> bool:
        """Move back an agent that was declared SUSPECT or LOST; whether it was.

        After a pause of the manager many agents are overdue at once: they share a transaction.
        """
        found: bool = await self._store.run_batched(_rejoin_batch, (agent_id, incarnation))
        return found


async def _store_batch(
    unit: UnitOfWork, cached: Sequence[tuple[AgentId, int, frozenset[str]]]
) -> list[Exception | None]:
    for agent_id, incarnation, images in sorted(cached, key=lambda one: one[0]):
        await unit.fleet.add_images(agent_id, incarnation, images)
    return [None] * len(cached)


async def _rejoin_batch(unit: UnitOfWork, overdue: Sequence[tuple[AgentId, int]]) -> list[bool | Exception]:
    # In the order of their ids, so that two managers lock the same agents in the same order.
    back = {
        (agent_id, incarnation): await _rejoin(unit, agent_id, incarnation)
        for agent_id, incarnation in sorted(set(overdue))
    }
    return [back[one] for one in overdue]


async def admit_together(
    unit: UnitOfWork, requests: Sequence[EnrolmentRequest]
) -> list[AgentAdmission | AgentRejection | Exception]:
    """Admit agents in one transaction.

    Those that are new, or known as they are, need few statements for all of them.
    """
    # In the order of their ids, so that two managers lock the same agents in the same order.
    known = await _known(unit, requests)
    new = {request.agent_id: index for index, request in enumerate(requests) if _is_new(request, known)}
    verdicts: dict[int, AgentAdmission | AgentRejection] = {}
    if await unit.fleet.enrol_new([_new_agent(requests[index]) for index in new.values()]):
        verdicts = {index: AgentAdmission(1) for index in new.values()}
    if new and len(verdicts) < len(requests):  # with those that another manager has enrolled meanwhile
        known = await _known(unit, requests)
    for index in sorted(range(len(requests)), key=lambda index: requests[index].agent_id):
        if index in verdicts:
            continue
        agent_id = requests[index].agent_id
        verdict = await _admitted(unit, requests[index], known.get(agent_id))
        if isinstance(verdict, AgentRejection):
            verdicts[index] = verdict
            continue
        known[agent_id] = verdict
        draining = verdict.info.status is AgentStatus.DRAINING
        verdicts[index] = AgentAdmission(verdict.info.incarnation, draining=draining)
    return [verdicts[index] for index in range(len(requests))]


async def _admitted(
    unit: UnitOfWork, request: EnrolmentRequest, known: AgentRecord | None
) -> AgentRecord | AgentRejection:
    if known is not None and known.info.status is AgentStatus.TERMINATED:
        return AgentRejection(LEFT, f"agent {request.agent_id} was removed; enrol the machine under a new id")
    if known is not None and await _is_taken(unit, known, request.identity):
        return AgentRejection(
            NAME_TAKEN,
            f"another machine or folder is agent {request.agent_id}; give this one another name, or wait until"
            " the other is lost and holds no kernels",
        )
    incarnation = 0 if known is None else known.info.incarnation
    readmitted = known is not None and _is_same_process(request, known)
    if 0 < request.incarnation < incarnation and not readmitted:
        message = f"incarnation {incarnation} of this agent has enrolled, this is {request.incarnation}"
        return AgentRejection(SUPERSEDED, message)
    if known is not None and readmitted:
        away = known.info.status in AWAY and await rejoin(unit, request.agent_id)
        return await unit.fleet.get(request.agent_id) if away else known
    if request.incarnation - incarnation > _INCARNATIONS_BEHIND_MAX:
        return AgentRejection(SUPERSEDED, f"incarnation {request.incarnation} is implausible: {incarnation} is known")
    return await _enrol(unit, request, known)


def _is_same_process(request: EnrolmentRequest, known: AgentRecord) -> bool:
    """Whether the process that enrolled last opens another link.

    Its welcome may have been lost, or another manager has enrolled it meanwhile: then it
    knows an earlier incarnation, or none.
    """
    if request.incarnation == known.info.incarnation:
        return True
    same = bool(request.process) and request.process == known.reported_labels.get(PROCESS_LABEL)
    return same and request.incarnation < known.info.incarnation


async def _is_taken(unit: UnitOfWork, known: AgentRecord, identity: str) -> bool:
    """Whether another agent has the name, and is present or may still run kernels.

    A new incarnation adopts the kernels found on its machine. Another machine would find
    none, and the slots of those on the first machine would be allocated twice.
    """
    before = known.info.labels.get(IDENTITY_LABEL, "")
    if before in {"", identity}:
        return False
    return known.info.status is not AgentStatus.LOST or bool(await unit.ledger.kernels_on(known.info.agent_id))


async def _known(unit: UnitOfWork, requests: Sequence[EnrolmentRequest]) -> dict[AgentId, AgentRecord]:
    found = await unit.fleet.all(named=[request.agent_id for request in requests])
    return {agent.info.agent_id: agent for agent in found}


def _is_new(request: EnrolmentRequest, known: Mapping[AgentId, AgentRecord]) -> bool:
    return request.incarnation == 0 and request.agent_id not in known and not request.claims


def _new_agent(request: EnrolmentRequest) -> NewAgent:
    return NewAgent(_info(request), _change(request), request.devices)


async def _enrol(unit: UnitOfWork, request: EnrolmentRequest, known: AgentRecord | None) -> AgentRecord:
    """Enrol a new incarnation, above any that the agent had before."""
    info, change = _info(request), _change(request)
    adopted = await _adopted(unit, request) if known is not None else ()
    agent = await unit.fleet.enrol(info, change, devices=request.devices, adopted=adopted)
    if known is None and agent.info.incarnation > 1:  # another manager has enrolled it meanwhile
        adopted = await _adopted(unit, request)
        agent = await unit.fleet.enrol(info, change, devices=request.devices, adopted=adopted)
    while agent.info.incarnation <= request.incarnation:
        agent = await unit.fleet.enrol(info, change, devices=request.devices, adopted=adopted)
    return await _with_claims(unit, request, agent)


async def _with_claims(unit: UnitOfWork, request: EnrolmentRequest, agent: AgentRecord) -> AgentRecord:
    """The agent with the claims of this incarnation, and none of an earlier one."""
    labels = claiming_labels(agent.operator_labels, request.claims)
    if labels == agent.operator_labels:
        return agent
    await unit.catalog.set_labels(agent.info.agent_id, labels, version=agent.version)
    return await unit.fleet.get(agent.info.agent_id)


def _info(request: EnrolmentRequest) -> AgentInfo:
    """The agent as it reports itself. Raises InvalidInput."""
    require_reported_labels(request.agent_id, request.labels)
    return AgentInfo(
        agent_id=request.agent_id,
        available_slots=request.slots,
        architecture=request.architecture,
        labels=_labels(request),
        kernels_max=request.kernels_max,
        scaling_group=request.scaling_group,
        shard=request.shard,
        cached_images=frozenset(image for image in request.images if is_name(image)),
    )


def _change(request: EnrolmentRequest) -> Change:
    return Change(f"agent {request.agent_id}"[:128], Cause.AGENT_REPORT, "enrolled")


def _labels(request: EnrolmentRequest) -> dict[str, str]:
    """The agent's labels; an operator cannot set those of its identity and process."""
    ours = {IDENTITY_LABEL: request.identity, PROCESS_LABEL: request.process}
    labels = {name: value for name, value in request.labels.items() if name not in ours}
    return labels | {name: value for name, value in ours.items() if value}


async def _adopted(unit: UnitOfWork, request: EnrolmentRequest) -> list[tuple[KernelId, int]]:
    """The kernels that the new incarnation adopts.

    Those that the agent found, and those that have not started: a late request to the
    earlier incarnation is refused, and is repeated to the new one. A partial report may
    leave out any other one.
    """
    held = await unit.ledger.kernels_on(request.agent_id)
    waiting = [
        (kernel.kernel_id, kernel.attempt) for kernel in held if request.partial or kernel.status in _NOT_STARTED
    ]
    return list(dict.fromkeys((*request.kernels, *waiting)))


async def _is_away(unit: UnitOfWork, agent_id: AgentId, incarnation: int) -> bool:
    found = await unit.fleet.all(named=[agent_id])
    return any(known.info.incarnation == incarnation and known.info.status in AWAY for known in found)


async def _rejoin(unit: UnitOfWork, agent_id: AgentId, incarnation: int) -> bool:
    return await _is_away(unit, agent_id, incarnation) and await rejoin(unit, agent_id)
