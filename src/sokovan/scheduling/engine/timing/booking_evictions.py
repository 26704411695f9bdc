"""Evictions for bookings: the sessions that leave booked agents, and when.

Takes the running sessions and the bookings of a snapshot. Gives the evictions that are due, and
the time of the next ones. A session leaves if it would not have ended when the booking begins,
does not use it, and may be evicted at all. It has its whole grace period, and so its notice is given that much
before the beginning. Budgets, run times and queues protect nothing from a booking.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.eviction import BOOKING, BOOKING_LEAD_MS, notice_ms
from sokovan.scheduling.engine.timing.calendar import may_leave
from sokovan.scheduling.engine.timing.end_times import end_of
from sokovan.scheduling.plan import Eviction
from sokovan.scheduling.snapshot import (
    NEVER_MS,
    KernelWorkload,
    SessionWorkload,
    SystemSnapshot,
    gang_holds,
    loss_slots,
    unsaved_ms,
)


class Departure(NamedTuple):
    """A session that leaves the agents of a booking, and when.

    `kernels` get their notice at `at_ms`, and end `notice_ms` after it at the latest.
    """

    session: SessionWorkload
    booking: Booking
    kernels: tuple[KernelWorkload, ...]
    at_ms: int
    notice_ms: int

    @property
    def ends_ms(self) -> int:
        """The end of the grace period."""
        return self.at_ms + self.notice_ms

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the session runs on."""
        return len(self.kernels) == len(running_kernels(self.session))

    def evictions(self, now_ms: int, assumed_ms: int) -> Iterator[Eviction]:
        """The kernels as evictions."""
        lost_ms = unsaved_ms(self.session, now_ms, assumed_ms)
        for kernel in self.kernels:
            yield Eviction(
                kernel.kernel_id,
                self.session.session_id,
                AgentId(str(kernel.agent)),
                SessionId(""),
                BOOKING,
                lost_ms * loss_slots(kernel.slots) // 1_000_000,
                BOOKING,
                notice_ms=self.notice_ms,
                for_booking=self.booking.name,
            )


class BookingEvictions(NamedTuple):
    """The sessions that leave now, and when others may have to; None if none has."""

    due: tuple[Departure, ...]
    next_ms: int | None


NO_DEPARTURES = BookingEvictions((), None)


def running_kernels(session: SessionWorkload) -> list[KernelWorkload]:
    """The kernels that are on agents and do not end."""
    return [kernel for kernel in session.kernels if kernel.agent is not None and not kernel.releasing]


def leaving_kernels(session: SessionWorkload, agents: Collection[str]) -> tuple[KernelWorkload, ...]:
    """The kernels to evict so that nothing of a session is on some agents.

    Only those there, if the others go on without them; all, if they do not. None if they may not be evicted.
    """
    running = running_kernels(session)
    there = [kernel for kernel in running if kernel.agent in agents]
    if not there or not may_leave(session):
        return ()
    if all(kernel.preemptible for kernel in there) and _goes_on_without(session, running, there):
        return tuple(there)
    return tuple(running) if all(kernel.preemptible for kernel in running) else ()


def _goes_on_without(
    session: SessionWorkload, running: Sequence[KernelWorkload], there: Sequence[KernelWorkload]
) -> bool:
    if len(there) == len(running) or session.starting or any(kernel.leads for kernel in there):
        return False
    # A best-effort kernel counts towards the minimum before it has an agent.
    waiting = [kernel for kernel in session.kernels if kernel.agent is None and not kernel.slots]
    gone = {kernel.kernel_id for kernel in there}
    left = [kernel for kernel in running if kernel.kernel_id not in gone]
    return gang_holds(session, [*left, *waiting]) or not gang_holds(session, [*running, *waiting])


def departure(session: SessionWorkload, booking: Booking, agents: Collection[str], now_ms: int) -> Departure | None:
    """When a session has to leave the agents of a booking.

    None if it need not, or may not be evicted.
    """
    at_ms = _notice_at(session, booking, now_ms)
    kernels = () if at_ms is None else leaving_kernels(session, agents)
    return (
        None if at_ms is None or not kernels else Departure(session, booking, kernels, at_ms, _lasts(session, booking))
    )


def _lasts(session: SessionWorkload, booking: Booking) -> int:
    """The time from the notice of a session to its end."""
    return notice_ms(session.grace_ms, booking.return_s if session.borrow else None)


def _notice_at(session: SessionWorkload, booking: Booking, now_ms: int) -> int | None:
    """When a session on the agents of a booking gets its notice, if its kernels may be evicted; None without one."""
    if not may_leave(session) or session.booking == booking.name or end_of(session, now_ms) <= booking.from_ms:
        return None
    return booking.from_ms - _lasts(session, booking) - BOOKING_LEAD_MS


def gone_by(session: SessionWorkload, agents: Collection[str], now_ms: int) -> tuple[int | None, bool]:
    """By when nothing of a session is on some agents, and whether by an eviction.

    It would begin now. None if it may run there for ever.
    """
    own_ms = end_of(session, now_ms)
    evicted_ms = now_ms + session.grace_ms + BOOKING_LEAD_MS if leaving_kernels(session, agents) else NEVER_MS
    if min(own_ms, evicted_ms) >= NEVER_MS:
        return None, False
    return min(own_ms, evicted_ms), evicted_ms < own_ms


def evictions_for_bookings(snapshot: SystemSnapshot, besides: Collection[str] = ()) -> BookingEvictions:
    """The sessions that have to leave booked agents now, and when others have to.

    None of `besides` leaves. A session is evicted for the booking that begins first.
    """
    booked = _booked(snapshot)
    if not booked:
        return NO_DEPARTURES
    due, later = list[Departure](), list[int]()
    for session in snapshot.sessions:
        places = {kernel.agent for kernel in session.kernels if kernel.agent in booked and not kernel.releasing}
        if not places or session.session_id in besides:
            continue
        leaves = list[Departure]()
        for booking, agents in {id(one): one for place in places for one in booked[str(place)]}.values():
            at_ms = _notice_at(session, booking, snapshot.now_ms)
            if at_ms is None:
                continue
            # Most bookings are far away: which kernels leave is asked when they do.
            if at_ms > snapshot.now_ms:
                later.append(at_ms)
            elif (one := departure(session, booking, agents, snapshot.now_ms)) is not None:
                leaves.append(one)
        if leaves:
            due.append(min(leaves, key=_order))
    due.sort(key=lambda one: (_order(one), one.session.session_id))
    return BookingEvictions(tuple(due), min(later, default=None))


def _order(one: Departure) -> tuple[int, str]:
    return one.at_ms, one.booking.name


# A booking with its agents.
_Booked = tuple[Booking, frozenset[str]]


def _booked(snapshot: SystemSnapshot) -> Mapping[str, list[_Booked]]:
    """The bookings of each agent that have not ended, and were not given up."""
    booked: dict[str, list[_Booked]] = {}
    if not snapshot.bookings:
        return booked
    used = {session.booking for session in snapshot.sessions if session.booking and not session.waits}
    for booking in snapshot.bookings:
        until = booking.to_ms if booking.name in used else booking.released_at()
        if until > snapshot.now_ms:
            one = (booking, agents_of(booking, snapshot))
            for agent in one[1]:
                booked.setdefault(agent, []).append(one)
    return booked


def agents_of(booking: Booking, snapshot: SystemSnapshot) -> frozenset[str]:
    """The agents of a booking in the scaling group of a snapshot."""
    if booking.hypernode is None:
        return frozenset(booking.agents)
    if any(node.name == booking.hypernode for node in snapshot.tree.hypernodes):
        return frozenset(map(str, snapshot.tree.agents_under(booking.hypernode)))
    return frozenset()
