"""Time in the reference scheduler: what is held at which time is summed up each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.session import SessionType
from sokovan.scheduling.snapshot import NEVER_MS, KernelWorkload, SessionWorkload, SystemSnapshot
from tests.reference.machines import ClusterState, Machine
from tests.reference.sessions import PlacedKernel, WaitingSession

# From the decision to the notice, and from the end to its proof.
LEAD_MS = 5_000


@dataclass(frozen=True)
class Hold:
    """Room for a session from a time on, until it would have ended."""

    session: SessionWorkload
    kernels: tuple[PlacedKernel, ...]
    starts_ms: int
    ends_ms: int

    def at(self, time_ms: int) -> bool:
        """Whether the room is held at a time."""
        return self.starts_ms <= time_ms < self.ends_ms


class Timetable:
    """Ends of kernels, bookings and holds; `session` is the one that is tried.

    While a later time is tried, the machines have the room of that time already.
    """

    def __init__(self, snapshot: SystemSnapshot, cluster: ClusterState, depth: int) -> None:
        self._now, self._cluster, self._depth = snapshot.now_ms, cluster, depth
        self.holds: list[Hold] = []
        self.session: SessionWorkload | None = None
        self.trial = False
        self._served: dict[str, str] = {}  # the first session of each queue that lacked room
        self._ends: list[tuple[str, int, KernelWorkload]] = []
        self._uncounted: list[tuple[str, int, KernelWorkload]] = []
        for session in snapshot.sessions:
            since = self._now if session.running_since_ms is None else session.running_since_ms
            running = [(k, str(k.agent)) for k in session.kernels if k.agent is not None and not k.releasing]
            self._note(running, max(session.ends_by(since), self._now + 1))
        used = {session.booking for session in snapshot.sessions if not session.waits}
        self._bookings = [
            one
            for one in snapshot.bookings
            if (one.to_ms if one.name in used else one.released_at()) > self._now
        ]  # fmt: skip

    def _note(self, kernels: Iterable[PlacedKernel], ends_ms: int) -> None:
        self._ends.extend((agent, ends_ms, kernel) for kernel, agent in kernels if ends_ms < NEVER_MS)

    def started(self, session: SessionWorkload, kernels: Sequence[PlacedKernel]) -> None:
        """Take note of kernels that start now; a session in its booking does not count against holds."""
        ends_ms = session.ends_by(self._now)
        self._note(kernels, ends_ms)
        if session.booking:
            times = {hold.starts_ms for hold in self.holds if hold.starts_ms < ends_ms}
            self._uncounted.extend((agent, at_ms, kernel) for at_ms in times for kernel, agent in kernels)

    def refused(self, session: SessionWorkload) -> bool:
        """Whether a session may not use the booking that it names."""
        if not session.booking:
            return False
        own = [one for one in self._bookings if one.name == session.booking]
        return not own or own[0].from_ms > self._now or not own[0].permits(session.owner, session.queue)

    def allows(self, machine: Machine, kernel: KernelWorkload) -> bool:
        """Whether the session may have the machine now, for as long as it runs."""
        session = self.session
        if self.trial or session is None:
            return True
        ends_ms = session.ends_by(self._now)
        if not self._is_open(machine, session, self._now, ends_ms):
            return False
        times = [] if session.booking else [hold.starts_ms for hold in self.holds if hold.starts_ms < ends_ms]
        return all(_enough(self._beside(machine, at_ms), kernel) for at_ms in times)

    def _is_open(self, machine: Machine, session: SessionWorkload, starts_ms: int, ends_ms: int) -> bool:
        """Whether no booking keeps a session off a machine in a period."""
        for booking in self._bookings:
            inside = machine.info.agent_id in booking.agents
            if booking.name == session.booking:
                if not inside or booking.to_ms <= starts_ms:
                    return False
            elif inside and self._overlaps(booking, starts_ms, ends_ms):
                # Later starts are promised without loans.
                if starts_ms == self._now and self._lends(booking, session):
                    continue
                return False
        return True

    def _lends(self, booking: Booking, session: SessionWorkload) -> bool:
        """Whether a booking lends its agents to a session now, for a minute at least, and has them back in time."""
        if booking.return_s is None or not session.borrow or not evictable(session):
            return False
        if not all(kernel.preemptible for kernel in session.kernels) or session.grace_ms > booking.return_s * 1000:
            return False
        return self._now + 60_000 + session.grace_ms + LEAD_MS <= booking.from_ms

    def _overlaps(self, booking: Booking, starts_ms: int, ends_ms: int) -> bool:
        if starts_ms == self._now:
            return max(booking.from_ms, self._now) < ends_ms
        return booking.from_ms < ends_ms and booking.to_ms > starts_ms

    def _free(self, machine: Machine, at_ms: int) -> dict[str, int]:
        """The room at a time: what has ended by then, less what is held then."""
        agent, free = machine.info.agent_id, dict(machine.future)
        for where, ends_ms, kernel in self._ends:
            if where == agent and ends_ms <= at_ms:
                _add(free, kernel, 1)
        for hold in self.holds:
            for kernel, where in hold.kernels:
                if where == agent and hold.at(at_ms):
                    _add(free, kernel, -1)
        return free

    def _beside(self, machine: Machine, at_ms: int) -> dict[str, int]:
        """The room beside a hold that begins at a time."""
        free = self._free(machine, at_ms)
        for where, when, kernel in self._uncounted:
            if (where, when) == (machine.info.agent_id, at_ms):
                _add(free, kernel, 1)
        return free

    def ended_by(self, at_ms: int) -> frozenset[str]:
        """The kernels that have ended by a time."""
        return frozenset(str(kernel.kernel_id) for _, ends_ms, kernel in self._ends if ends_ms <= at_ms)

    def may_hold(self, pending: WaitingSession) -> bool:
        """Whether a session that lacks room is the first of its queue."""
        if len(self.holds) >= self._depth or pending.placed or pending.reserved or pending.ready():
            return False
        if str(pending.session.queue) in self._served:
            return False
        self._served[str(pending.session.queue)] = str(pending.session.session_id)
        return True

    def later(self, session: SessionWorkload) -> Iterator[tuple[int, ClusterState]]:
        """The times at which room becomes free, with the cluster as the session would find it then."""
        ends = {ends_ms for _, ends_ms, _ in self._ends} | {booking.to_ms for booking in self._bookings}
        ends |= {hold.ends_ms for hold in self.holds if hold.ends_ms < NEVER_MS}
        for at_ms in sorted(one for one in ends if one > self._now):
            there = self._cluster.copy()
            for name, machine in there.machines.items():
                machine.future = self._room(self._cluster.machines[name], session, at_ms)
            yield at_ms, there

    def _room(self, machine: Machine, session: SessionWorkload, at_ms: int) -> dict[str, int]:
        """The room of a machine from a time on, until the session would have ended."""
        ends_ms = session.ends_by(at_ms)
        if not self._is_open(machine, session, at_ms, ends_ms):
            return {}
        times = [hold.starts_ms for hold in self.holds if at_ms < hold.starts_ms < ends_ms]
        rooms = [self._free(machine, at_ms), *(self._beside(machine, one) for one in times)]
        return {slot: min(room[slot] for room in rooms) for slot in rooms[0]}

    def hold(self, pending: WaitingSession, kernels: Iterable[PlacedKernel], starts_ms: int) -> None:
        """Hold room for a session from a time on."""
        session = pending.session
        self.holds.append(Hold(session, tuple(kernels), starts_ms, session.ends_by(starts_ms)))


def evictable(session: SessionWorkload) -> bool:
    """Whether a booking may evict a session at all."""
    return session.preemptible and session.session_type is not SessionType.SYSTEM


def booking_evictions(snapshot: SystemSnapshot) -> set[tuple[str, str]]:
    """The kernels that leave for bookings now, each with its booking: every pair of session and booking is asked."""
    now, found = snapshot.now_ms, dict[str, tuple[int, str, set[str]]]()
    used = {session.booking for session in snapshot.sessions if not session.waits}
    for booking in snapshot.bookings:
        if (booking.to_ms if booking.name in used else booking.released_at()) <= now:
            continue
        for session in snapshot.sessions:
            since = now if session.running_since_ms is None else session.running_since_ms
            ends_by_itself = max(session.ends_by(since), now + 1) <= booking.from_ms
            notice_ms = session.grace_ms
            if session.borrow and booking.return_s is not None:
                notice_ms = min(notice_ms, booking.return_s * 1000)
            due_ms = booking.from_ms - notice_ms - LEAD_MS
            leaves = _leaving(session, booking)
            if session.booking == booking.name or ends_by_itself or not leaves:
                continue
            known = found.get(str(session.session_id))
            if known is None or (due_ms, booking.name) < known[:2]:
                found[str(session.session_id)] = (due_ms, booking.name, leaves)
    return {(kernel, name) for due_ms, name, kernels in found.values() if due_ms <= now for kernel in kernels}


def _leaving(session: SessionWorkload, booking: Booking) -> set[str]:
    """The kernels there if the rest is a gang without them, else all of the session."""
    running = [kernel for kernel in session.kernels if kernel.agent is not None and not kernel.releasing]
    there = [kernel for kernel in running if str(kernel.agent) in booking.agents]
    if not there or not evictable(session):
        return set()
    waiting = sum(kernel.agent is None and not kernel.slots for kernel in session.kernels)
    rest = len(running) - len(there)
    was_broken = len(running) + waiting < session.gang_size
    goes_on = rest > 0 and not session.starting and (rest + waiting >= session.gang_size or was_broken)
    if goes_on and all(kernel.preemptible for kernel in there):
        return {str(kernel.kernel_id) for kernel in there}
    return {str(kernel.kernel_id) for kernel in running} if all(one.preemptible for one in running) else set()


def _add(free: dict[str, int], kernel: KernelWorkload, times: int) -> None:
    for slot, amount in kernel.slots.items():
        free[slot] = free.get(slot, 0) + times * amount


def _enough(free: dict[str, int], kernel: KernelWorkload) -> bool:
    return all(free.get(slot, 0) >= amount for slot, amount in kernel.slots.items())
