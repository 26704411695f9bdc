"""Departures of sessions from booked agents: to come, and by receipts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace

from sokovan.domain.cluster.booking import AgentUse, Booking
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.lifecycle.eviction import BOOKING_LEAD_MS, EvictionReceipt
from sokovan.domain.lifecycle.kernel import ALIVE, HOLDS_SLOTS, KERNEL, KernelStatus
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.session import EndPolicy
from sokovan.orchestrator.topology_changes import TopologyState, topology_state
from sokovan.ports.repositories.sessions import PAGE, SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.engine.timing.booking_evictions import Departure, departure, gone_by
from sokovan.scheduling.snapshot import SessionWorkload, workload_of

_LIVE = tuple(status for status in SessionStatus if status not in SESSION.terminal)
_STARTING = frozenset(status.value for status in ALIVE if status is not KernelStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class BookedSession:
    """A session that leaves booked agents, or was evicted from them.

    One of both is given.
    """

    session: SessionRecord
    leaves: Departure | None = None
    receipt: EvictionReceipt | None = None


def booked_agents(booking: Booking, state: TopologyState, *, required: bool = False) -> Collection[str]:
    """The agents of a booking. Raises ObjectNotFound if one is required and missing."""
    known = {str(one.info.agent_id) for one in state.agents}
    if booking.hypernode is None:
        missing = [one for one in booking.agents if one not in known]
        if missing and required:
            raise ObjectNotFound(what="agent", name=missing[0])
        return booking.agents
    if any(node.name == booking.hypernode for node in state.hypernodes):
        return tuple(map(str, state.tree.agents_under(booking.hypernode)))
    if required:
        raise ObjectNotFound(what="HyperNode", name=booking.hypernode)
    return ()


def workload_on_agents(session: SessionRecord) -> SessionWorkload:
    """A stored session as the scheduler sees it, without kernels that have ended."""
    stored = {one.kernel_id: one for one in session.kernels if one.status not in KERNEL.terminal}
    workload = workload_of(session.spec, submitted=session.place)
    leads_main = session.spec.ends_with is EndPolicy.MAIN
    placed = any(kernel.status in HOLDS_SLOTS for kernel in session.kernels)
    kernels = []
    for one in workload.kernels:
        kernel = stored.get(one.kernel_id)
        if kernel is None:
            continue
        holds = kernel.status in HOLDS_SLOTS
        leads = len(session.kernels) > 1 and (kernel.rank == 0 or (leads_main and kernel.index == 0))
        kernels.append(
            replace(
                one,
                agent=kernel.agent_id if holds else None,
                releasing=kernel.status is KernelStatus.TERMINATING,
                meets=one.meets and not placed,
                leads=holds and leads,
            )
        )
    return replace(
        workload,
        kernels=tuple(kernels),
        running_since_ms=session.since_ms if session.status is SessionStatus.RUNNING else None,
        starting=session.status.value in _STARTING,
        checkpoint_ms=session.checkpoint_ms,
    )


async def live_sessions(unit: UnitOfWork) -> AsyncIterator[SessionRecord]:
    """The sessions that have not ended, page by page."""
    after: int | None = None
    while page := await unit.sessions.page(SessionFilter(statuses=_LIVE), limit=PAGE, after=after):
        for session in page:
            yield session
        after = page[-1].place


def uses_of(session: SessionRecord, agents: Collection[str] | None, now_ms: int) -> list[AgentUse]:
    """The uses of agents by a session, and by when each has ended.

    An eviction ends it as well, unless no `agents` are given: then the uses are of all that it is on.
    """
    here = [one for one in kernels_on(session) if agents is None or one.agent_id in agents]
    if not here:
        return []
    gone_ms, evicted = _own_end_ms(session, now_ms), False
    if agents is not None and session.status is not SessionStatus.TERMINATING:
        gone_ms, evicted = gone_by(workload_on_agents(session), agents, now_ms)
    name = session.spec.name or str(session.session_id)
    return [
        AgentUse(str(one.agent_id), name, one.since_ms + session.spec.stop_grace_s * 1000)
        if one.status is KernelStatus.TERMINATING
        else AgentUse(str(one.agent_id), name, gone_ms, evicted)
        for one in here
    ]


def kernels_on(session: SessionRecord) -> list[KernelRecord]:
    """The kernels of a session that are on agents."""
    return [one for one in session.kernels if one.status in HOLDS_SLOTS and one.agent_id is not None]


def _own_end_ms(session: SessionRecord, now_ms: int) -> int | None:
    """By when a session has ended by its time limit; None without one."""
    grace_ms, limit_s = session.spec.stop_grace_s * 1000, session.spec.time_limit_s
    if session.status is SessionStatus.TERMINATING:
        return session.since_ms + grace_ms
    if limit_s is None:
        return None
    since_ms = session.since_ms if session.status is SessionStatus.RUNNING else now_ms
    return max(since_ms + limit_s * 1000 + grace_ms, now_ms + 1)


async def leaving_sessions(unit: UnitOfWork, booking: Booking, agents: Collection[str]) -> list[BookedSession]:
    """The sessions that are evicted for a booking unless they end before.

    The first notice comes first.
    """
    found = []
    if booking.to_ms > unit.now_ms:
        async for session in live_sessions(unit):
            if not any(one.agent_id in agents for one in kernels_on(session)):
                continue
            leaves = departure(workload_on_agents(session), booking, agents, unit.now_ms)
            if leaves is not None:
                found.append(BookedSession(session, leaves=leaves))
    return sorted(found, key=lambda one: (one.leaves.at_ms if one.leaves else 0, one.session.place))


async def evicted_sessions(unit: UnitOfWork, booking: Booking) -> list[BookedSession]:
    """The sessions that were evicted for a booking, by their receipts."""
    found: list[BookedSession] = []
    wanted = SessionFilter(evicted_for=booking.name)
    after: int | None = None
    while page := await unit.sessions.page(wanted, limit=PAGE, after=after):
        for session in page:
            found.extend(BookedSession(session, receipt=one) for one in session.evictions if _is_for(one, booking))
        after = page[-1].place
    return sorted(found, key=lambda one: (one.receipt.at_ms if one.receipt else 0, one.session.place))


def _is_for(receipt: EvictionReceipt, booking: Booking) -> bool:
    """Whether a receipt is of this booking, and not of an earlier one of its name."""
    is_its_time = receipt.evict_at_ms + BOOKING_LEAD_MS >= booking.from_ms and receipt.at_ms < booking.to_ms
    return receipt.for_booking == booking.name and is_its_time


async def departures_of(unit: UnitOfWork, session: SessionRecord) -> Sequence[Departure]:
    """The evictions for bookings that a running session has before it."""
    if not kernels_on(session):
        return ()
    bookings = [one for one in await unit.catalog.all(Booking) if one.to_ms > unit.now_ms]
    if not bookings:
        return ()
    workload = workload_on_agents(session)
    state = await topology_state(unit) if any(one.hypernode for one in bookings) else None
    found = []
    for booking in bookings:
        agents = booking.agents if state is None else booked_agents(booking, state)
        leaves = departure(workload, booking, agents, unit.now_ms)
        if leaves is not None:
            found.append(leaves)
    return sorted(found, key=lambda one: (one.at_ms, one.booking.name))
