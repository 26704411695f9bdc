"""Verification at commit time, a pure function of locked rows.

The snapshot behind a decision may be stale. Assignments that no longer fit are
refused with a reason; the others are not affected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sokovan.adapters.sql.allocation.devices import DeviceAllocator
from sokovan.adapters.sql.allocation.port_leases import PortLeases, assign_ranks, requested_ports
from sokovan.adapters.sql.repositories.owner_limits import OwnerLimits
from sokovan.adapters.sql.repositories.sessions.session_rows import SessionRow, slots_of
from sokovan.adapters.sql.repositories.usage import scopes_of
from sokovan.adapters.sql.schema.tables import SESSIONS_SLOT
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS, KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.session import ANY_PORT, SessionType
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.ports.allocation import (
    AgentChanged,
    AllocationError,
    AllocationRefused,
    Assignment,
    DependencyChanged,
    IncompleteGang,
    PortsTaken,
    QuotaPassed,
    SessionNotWaiting,
)

_CLOSED = frozenset({SessionStatus.TERMINATING, SessionStatus.TERMINATED, SessionStatus.CANCELLED})


@dataclass(slots=True)
class LockedAgent:
    """One locked agent; `free` and `kernels_left` decrease as kernels are accepted."""

    alive: bool
    incarnation: int
    architecture: str
    labels: Mapping[str, str]
    free: dict[str, int]
    kernels_left: int | None
    scaling_group: str
    devices: DeviceAllocator = field(default_factory=DeviceAllocator)
    ports: PortLeases = field(default_factory=PortLeases)


@dataclass(slots=True)
class LockedState:
    """The input of the verification, valid within one transaction."""

    agents: Mapping[str, LockedAgent]
    sessions: Mapping[str, SessionRow]
    used: dict[tuple[str, str, str], int]
    limits: OwnerLimits
    unmet: Collection[str]
    topology_changed: bool = False
    bookings_changed: bool = False
    _limits_of: dict[tuple[str, ...], list[tuple[str, str, str, int]]] = field(default_factory=dict)

    def limits_of(self, row: Any) -> list[tuple[str, str, str, int]]:
        """The limits on the owner of a session, as (scope, name, slot, limit)."""
        names = (row.access_key, row.user, row.group, row.domain)
        known = self._limits_of.get(names)
        if known is None:
            known = limits_on(scopes_of(row), self.limits)
            self._limits_of[names] = known
        return known


def limits_on(scopes: Iterable[tuple[str, str]], limits: OwnerLimits) -> list[tuple[str, str, str, int]]:
    """The limits of these scopes, as (scope, name, slot, limit)."""
    return [(*scope, slot, limit) for scope in scopes for slot, limit in limits.get(scope, {}).items()]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted assignment: its session, and the devices of each kernel."""

    assignment: Assignment
    session: SessionRow
    devices: Mapping[KernelId, Mapping[str, tuple[tuple[str, int], ...]]]
    ports: Mapping[KernelId, Mapping[str, int]]
    # Added to the owner's usage: slots, and one session if it held nothing before.
    amounts: Mapping[str, int]


def verify(
    assignments: Sequence[Assignment], state: LockedState
) -> tuple[list[Accepted], dict[SessionId, AllocationError]]:
    """Accept or refuse assignments in order; each sees what the earlier ones took."""
    accepted: list[Accepted] = []
    refused: dict[SessionId, AllocationError] = {}
    taken: set[str] = set()
    for assignment in assignments:
        try:
            if assignment.session_id in taken:
                raise SessionNotWaiting(session_id=assignment.session_id, problem="it is assigned twice")
            accepted.append(_verified(assignment, state))
            taken.add(assignment.session_id)
        except AllocationError as error:
            refused.setdefault(assignment.session_id, error)
    return accepted, refused


def _verified(assignment: Assignment, state: LockedState) -> Accepted:
    session = _waiting_session(assignment, state)
    amounts = _amounts(assignment, session)
    limited = bool(state.limits) and SessionType(session.row.session_type).is_charged
    if limited:
        _check_quota(session, amounts, state)
    assign_ranks(session, {kernel_id for kernel_id, _ in assignment.kernels})
    devices, ports = _check_agents(assignment, session, state)
    if limited:
        _add_usage(session, amounts, state)
    return Accepted(assignment=assignment, session=session, devices=devices, ports=ports, amounts=amounts)


def _waiting_session(assignment: Assignment, state: LockedState) -> SessionRow:
    session = state.sessions.get(assignment.session_id)
    if session is None:
        raise SessionNotWaiting(session_id=assignment.session_id, problem="it does not exist")
    if session.goal is not Goal.RUN or session.status in _CLOSED:
        raise SessionNotWaiting(session_id=assignment.session_id, problem=f"it is {session.status} now")
    named = dict(assignment.kernels)
    if not named or len(named) != len(assignment.kernels):
        raise IncompleteGang(session_id=assignment.session_id, problem="a kernel is named twice, or none is")
    for kernel_id in named:
        kernel = session.kernels.get(kernel_id)
        if kernel is None or kernel.status is not KernelStatus.PENDING:
            found = "missing" if kernel is None else str(kernel.status)
            raise SessionNotWaiting(session_id=assignment.session_id, problem=f"its kernel {kernel_id} is {found}")
    bound = len(named) + sum(kernel.status in HOLDS_SLOTS for kernel in session.kernels.values())
    if bound < session.row.required:
        problem = f"{bound} kernels would start, {session.row.required} must start together"
        raise IncompleteGang(session_id=assignment.session_id, problem=problem)
    if assignment.session_id in state.unmet:
        raise DependencyChanged(session_id=assignment.session_id, problem="a session it depends on has not succeeded")
    if assignment.has_domain and state.topology_changed:
        raise AgentChanged(session_id=assignment.session_id, problem="the topology has changed since the decision")
    if state.bookings_changed:  # its agents may be booked now; the next cycle decides with that
        raise AgentChanged(session_id=assignment.session_id, problem="the bookings have changed since the decision")
    return session


def _check_agents(
    assignment: Assignment, session: SessionRow, state: LockedState
) -> tuple[dict[KernelId, Mapping[str, tuple[tuple[str, int], ...]]], dict[KernelId, Mapping[str, int]]]:
    """Reserve room, devices and ports kernel by kernel; release everything if one does not fit."""
    done: list[tuple[LockedAgent, ResourceSlot, Mapping[str, tuple[tuple[str, int], ...]]]] = []
    devices: dict[KernelId, Mapping[str, tuple[tuple[str, int], ...]]] = {}
    ports: dict[KernelId, Mapping[str, int]] = {}
    fitting: dict[str, LockedAgent] = {}  # looked at once: a gang has many kernels on each
    try:
        for kernel_id, agent_id in assignment.kernels:
            kernel, agent = session.kernels[kernel_id], fitting.get(agent_id)
            if agent is None:
                agent = fitting[agent_id] = _fitting_agent(assignment, agent_id, state, session.row.scaling_group)
            if kernel.architecture != agent.architecture or not _has_labels(kernel.require, agent.labels):
                problem = f"agent {agent_id} no longer has what kernel {kernel_id} requires"
                raise AgentChanged(session_id=assignment.session_id, problem=problem)
            slots = kernel.slots
            picked = _reserve(assignment, agent_id, agent, slots)
            done.append((agent, slots, picked))
            devices[kernel_id] = picked
            requested = requested_ports(session, kernel)
            ports[kernel_id] = _lease(assignment, agent_id, agent, requested) if requested else {}
    except AllocationError:
        for agent, slots, picked in done:
            _release(agent, slots, picked)
        for kernel_id, agent_id in assignment.kernels:
            if kernel_id in ports:
                state.agents[agent_id].ports.put_back(ports[kernel_id].values())
        raise
    return devices, ports


def _lease(
    assignment: Assignment, agent_id: str, agent: LockedAgent, requested: Mapping[str, int]
) -> Mapping[str, int]:
    leased = agent.ports.take(requested)
    if leased is None:
        wanted = ", ".join(str(port) for port in requested.values() if port != ANY_PORT) or "a port of its range"
        problem = f"agent {agent_id} has leased {wanted}, or until recently"
        raise PortsTaken(session_id=assignment.session_id, problem=problem, agent_id=agent_id)
    return leased


def _fitting_agent(assignment: Assignment, agent_id: str, state: LockedState, scaling_group: str) -> LockedAgent:
    agent = state.agents.get(agent_id)
    problem = ""
    if agent is None:
        problem = f"agent {agent_id} does not exist"
    elif not agent.alive:
        problem = f"agent {agent_id} accepts no new kernels"
    elif assignment.incarnations.get(agent_id, agent.incarnation) != agent.incarnation:  # type: ignore[call-overload]  # the key is a plain string here
        problem = f"agent {agent_id} has enrolled again"
    elif agent.scaling_group != scaling_group:
        problem = f"agent {agent_id} is in scaling group {agent.scaling_group}"
    if problem or agent is None:
        raise AgentChanged(session_id=assignment.session_id, problem=problem)
    return agent


def _reserve(
    assignment: Assignment, agent_id: str, agent: LockedAgent, slots: ResourceSlot
) -> Mapping[str, tuple[tuple[str, int], ...]]:
    if agent.kernels_left is not None and agent.kernels_left < 1:
        problem = f"agent {agent_id} is at its kernel limit"
        raise AllocationRefused(session_id=assignment.session_id, problem=problem, agent_id=agent_id)
    short = {slot: amount - free for slot, amount in slots.items() if (free := agent.free.get(slot, 0)) < amount}
    for slot in short:
        problem = f"agent {agent_id} has {agent.free.get(slot, 0)} {slot} free, {slots[slot]} are needed"
        raise AllocationRefused(
            session_id=assignment.session_id, problem=problem, shortfall=ResourceSlot(short), agent_id=agent_id
        )
    picked = agent.devices.take(slots)
    if picked is None:
        problem = f"agent {agent_id} has too few devices free"
        raise AllocationRefused(session_id=assignment.session_id, problem=problem, agent_id=agent_id)
    for slot, amount in slots.items():
        agent.free[slot] -= amount
    if agent.kernels_left is not None:
        agent.kernels_left -= 1
    return picked


def _release(agent: LockedAgent, slots: ResourceSlot, picked: Mapping[str, tuple[tuple[str, int], ...]]) -> None:
    for slot, amount in slots.items():
        agent.free[slot] += amount
    if agent.kernels_left is not None:
        agent.kernels_left += 1
    agent.devices.put_back(picked)


def _has_labels(require: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in require.items())


def _amounts(assignment: Assignment, session: SessionRow) -> dict[str, int]:
    """Usage to add for the owner; a session that already holds slots is not counted again."""
    amounts: dict[str, int] = {}
    for text, kernels in Counter(session.kernels[kernel_id].slots_text for kernel_id, _ in assignment.kernels).items():
        for slot, amount in slots_of(text).items():
            amounts[slot] = amounts.get(slot, 0) + amount * kernels
    if not any(kernel.status in HOLDS_SLOTS for kernel in session.kernels.values()):
        amounts[SESSIONS_SLOT] = 1
    return amounts


def _check_quota(session: SessionRow, amounts: Mapping[str, int], state: LockedState) -> None:
    for scope, name, slot, limit in state.limits_of(session.row):
        amount = amounts.get(slot)
        if amount is None:
            continue
        used = state.used.get((scope, name, slot), 0)
        if used + amount > limit:
            what = "sessions" if slot == SESSIONS_SLOT else slot
            problem = f"{scope} {name} uses {used} of {limit} {what}, {amount} more are requested"
            shortfall = NO_SLOTS if slot == SESSIONS_SLOT else ResourceSlot({slot: used + amount - limit})
            raise QuotaPassed(session_id=session.session_id, problem=problem, shortfall=shortfall)


def _add_usage(session: SessionRow, amounts: Mapping[str, int], state: LockedState) -> None:
    for scope, name, slot, _ in state.limits_of(session.row):
        if slot in amounts:
            key = (scope, name, slot)
            state.used[key] = state.used.get(key, 0) + amounts[slot]
