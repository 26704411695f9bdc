"""Calendar: room that is held from a time on, for sessions and bookings.

Takes the sessions and bookings of a snapshot, and holds. Gives the room that a session may
use, and the reason of one that waits for a booking. Each time at which something is
held is a block of the workspace. A session needs room in the blocks whose time comes before
it would have ended, so that it uses held agents only if it ends by then, or if what is free
then is enough for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.lifecycle.durations import duration_text_of
from sokovan.domain.lifecycle.eviction import BOOKING_LEAD_MS, kernels_text
from sokovan.domain.session import SessionType
from sokovan.domain.slot_notation import format_slots
from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession, TentativeKernel
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.timing.end_times import EndTimes, end_of
from sokovan.scheduling.engine.workspace import Ints, Workspace
from sokovan.scheduling.snapshot import NEVER_MS, Reservation, SessionWorkload, SystemSnapshot, evictable
from sokovan.scheduling.trace import Code

# Bookings with blocks of their own, the earliest first. The others share one: their agents are kept free from the
# time at which the first of them begins.
BOOKING_BLOCKS_MAX = 64
# Bookings that a verdict names.
SHOWN_MAX = 3
# A booking that begins sooner lends nothing: a session would hardly have started before its notice.
LENT_MIN_MS = 60_000
# Read without a call of Python for each of many sessions.
_BOOKING = attrgetter("booking")
_TIME_LIMIT = attrgetter("time_limit_ms")


class Hold(NamedTuple):
    """Room for a waiting session from a time on, and until when it needs it."""

    pending: PendingSession
    kernels: tuple[tuple[str, int], ...]
    starts_ms: int
    ends_ms: int
    amounts: tuple[tuple[int, Ints], ...]


class Block(NamedTuple):
    """One time at which room is held, and for which booking.

    With `inside` it keeps the sessions of the booking on its agents.
    """

    at_ms: int
    booking: Booking | None = None
    inside: bool = False


def blocks_of(snapshot: SystemSnapshot, depth: int) -> int:
    """How many blocks a cycle may need; 0 without time limits and bookings."""
    sessions = snapshot.sessions
    if snapshot.bookings or any(map(_BOOKING, sessions)):
        # At least one: a session whose booking is gone waits, also where nothing else is held.
        return max(1, depth + 2 * min(len(snapshot.bookings), BOOKING_BLOCKS_MAX + 1))
    return depth if set(map(_TIME_LIMIT, sessions)) - {None} else 0


class Calendar:
    """The holds and bookings of one cycle."""

    def __init__(self, snapshot: SystemSnapshot, workspace: Workspace, *, depth: int) -> None:
        self.now_ms, self._workspace, self._depth = snapshot.now_ms, workspace, depth
        self.ends = EndTimes(snapshot, workspace)
        self.blocks: list[Block] = []
        self.holds: dict[str, Hold] = {}
        self.served: dict[str, str] = {}  # the first session without room of each queue
        self._agents: dict[str, Ints] = {}  # of the booking of a block, which may stand for later ones
        self._rows: dict[str, list[int]] = {}  # of each booking
        # How many kernels of a shape the agents of a booking could hold: many sessions may name one booking.
        self._whole_room: dict[tuple[str, Shape], int] = {}
        self._ended: set[str] = set()
        used = {session.booking for session in snapshot.sessions if session.booking and not session.waits}
        valid: list[Booking] = []
        for booking in sorted(snapshot.bookings, key=lambda one: (one.from_ms, one.name)):
            until = booking.to_ms if booking.name in used else booking.released_at()
            if until > self.now_ms:
                valid.append(booking)
            else:
                self._ended.add(booking.name)
        for booking in valid[:BOOKING_BLOCKS_MAX]:
            self._book(booking, self._agents_of(booking))
        self._shared = {booking.name: booking for booking in valid[BOOKING_BLOCKS_MAX:]}
        if self._shared:
            agents = sorted({at for one in self._shared.values() for at in self._agents_of(one)})
            last_ms = max(one.to_ms for one in self._shared.values())
            self._book(replace(valid[BOOKING_BLOCKS_MAX], to_ms=last_ms, return_s=None), agents)
        # No more holds: kernels were evicted, which still count as ending in time.
        self.closed = False

    def _agents_of(self, booking: Booking) -> list[int]:
        found = self._rows.get(booking.name)
        if found is None:
            found = self._rows[booking.name] = self._found_agents(booking)
        return found

    def _found_agents(self, booking: Booking) -> list[int]:
        workspace = self._workspace
        if any(node.name == booking.hypernode for node in workspace.tree.hypernodes):
            return list(range(*workspace.tree.span(str(booking.hypernode))))
        return [workspace.position[name] for name in booking.agents if name in workspace.position]

    def _could_hold(self, booking: Booking, shape: Shape) -> int:
        """How many kernels of a shape the agents of a booking could hold if they were empty."""
        key = booking.name, shape
        if key not in self._whole_room:
            self._whole_room[key] = int(shape.possible_counts(self._workspace, self._agents_of(booking)).sum())
        return self._whole_room[key]

    def _book(self, booking: Booking, agents: list[int]) -> None:
        self._agents[booking.name] = np.array(agents, np.int64)
        begins = max(self.now_ms, booking.from_ms)
        self._add_block(Block(begins, booking))[agents] = -1
        inside = self._add_block(Block(self.now_ms, booking, inside=True))
        others = np.ones(len(inside), bool)
        others[agents] = False
        inside[others] = -1

    def _add_block(self, block: Block) -> Ints:
        self.blocks.append(block)
        return self._block(len(self.blocks) - 1)

    def _block(self, number: int) -> Ints:
        """The free amounts of a block, as a view."""
        width = self._workspace.width
        return self._workspace.room[:, (2 + number) * width : (3 + number) * width]

    def objection(self, pending: PendingSession) -> PendingReason | None:
        """Why a session may not use the booking that it names now, if it names one."""
        session = pending.session
        if not session.booking:
            return None
        booking = self._shared.get(session.booking) or next(
            (one.booking for one in self.blocks if one.booking and one.booking.name == session.booking), None
        )
        if booking is None:
            ended = "has ended, or was given up because no session used it"
            problem = ended if session.booking in self._ended else "does not exist, or has ended"
            return PendingReason(Code.BOOKING_INVALID, f"its booking {session.booking} {problem}")
        if not booking.permits(session.owner, session.queue):
            problem = "does not permit its owner or queue"
            return PendingReason(Code.BOOKING_INVALID, f"its booking {booking.name} {problem}")
        if excess := self._excess(pending, booking):
            return PendingReason(Code.NEVER_FITS, excess)
        if booking.from_ms > self.now_ms:
            begins = duration_text_of(booking.from_ms - self.now_ms)
            return PendingReason(Code.NOT_YET_BEGIN, f"its booking {booking.name} begins in {begins}")
        if booking.name in self._shared:
            problem = f"comes after {BOOKING_BLOCKS_MAX} others that have not ended"
            return PendingReason(Code.BOOKED, f"its booking {booking.name} {problem}")
        return None

    def _excess(self, pending: PendingSession, booking: Booking) -> str:
        """Why the agents of a booking could not hold a session even if they were empty.

        Empty if they could, or if some of them may be away now: which a HyperNode had is not known.
        """
        if booking.hypernode is not None:
            return ""
        agents, need = self._agents_of(booking), pending.need()
        if not pending.starts or pending.waiting < need or not agents or len(agents) < len(booking.agents):
            return ""
        waiting = Counter[Shape]()
        for batch in pending.batches:
            waiting[batch.shape] += len(batch.kernels)
        room = {shape: self._could_hold(booking, shape) for shape in waiting}
        if sum(min(count, room[shape]) for shape, count in waiting.items()) >= need:
            return ""
        short = min(waiting, key=lambda shape: room[shape] - waiting[shape])
        what, kernels = format_slots(short.slots), kernels_text(room[short])
        if not room[short]:
            return f"no agent of its booking {booking.name} could ever hold {what}"
        return f"its booking {booking.name}, if it were empty, holds {kernels} of {what}, {need} must start together"

    def prepare(self, pending: PendingSession, *, holding: bool = False) -> None:
        """Let a session be tried with the blocks that concern it.

        It gives up what is held for it, unless it goes on `holding` that.
        """
        if not holding:
            self.release(str(pending.session.session_id))
        blocks = self._concerning(pending.session, pending.session.ends_by(self.now_ms))
        for batch in (*pending.batches, *pending.best_effort):
            batch.shape = batch.shape.during(blocks, self._workspace)

    def _concerning(self, session: SessionWorkload, ends_ms: int) -> int:
        """The blocks whose time comes before a session ends, as bits.

        One that runs in a booking has its agents before those for whom they are held afterwards.
        """
        bits = 0
        for number, (at_ms, booking, inside) in enumerate(self.blocks):
            if booking is None and session.booking:
                continue
            own = booking is not None and booking.name == session.booking
            if at_ms < ends_ms and own == inside and not (session.borrow and self._is_lent(number, session)):
                bits |= 1 << number
        return bits

    def _is_lent(self, number: int, session: SessionWorkload) -> bool:
        """Whether the agents of a block are lent to a session until its booking begins."""
        booking = self.blocks[number].booking
        return booking is not None and booking.name != session.booking and lends(booking, session, self.now_ms)

    def lenders(self, session: SessionWorkload, agents: Sequence[int]) -> list[Booking]:
        """The bookings that lend agents to a session until they begin."""
        if not session.borrow:
            return []
        ends_ms = session.ends_by(self.now_ms)
        return [
            booking
            for number, (at_ms, booking, inside) in enumerate(self.blocks)
            if booking is not None and not inside and at_ms < ends_ms and self._is_lent(number, session)
            if np.isin(agents, self._agents[booking.name]).any()
        ]

    def may_hold(self, pending: PendingSession) -> bool:
        """Whether a session is the first of its queue to hold room."""
        session_id = str(pending.session.session_id)
        # One that held room before was tried again, and may hold it again.
        if self.closed or self.served.get(pending.node.name, session_id) != session_id:
            return False
        if len(self.holds) >= self._depth:
            return False
        return not (pending.placed or pending.reserved or pending.grows())

    def room(self, session: SessionWorkload, starts_ms: int) -> Ints:
        """The free amounts for a session from a time on, until it would have ended."""
        free = self._free_at(starts_ms)
        ends_ms = session.ends_by(starts_ms)
        for booking in self._bookings():
            if booking.name == session.booking:
                outside = np.ones(len(free), bool)
                # After its end the session could not use the booking any more.
                outside[self._agents[booking.name]] = booking.to_ms <= starts_ms
                free[outside] = -1
            elif booking.from_ms < ends_ms and booking.to_ms > starts_ms:
                free[self._agents[booking.name]] = -1
        for number, block in enumerate(self.blocks):
            if block.booking is None and starts_ms < block.at_ms < ends_ms:
                np.minimum(free, self._block(number), out=free)
        return free

    def _bookings(self) -> Iterator[Booking]:
        return (one.booking for one in self.blocks if one.booking is not None and not one.inside)

    def _free_at(self, at_ms: int) -> Ints:
        """FutureIdle with what has ended by a time, less what other sessions hold then."""
        free = self._workspace.future + self.ends.released_by(at_ms)
        for hold in self.holds.values():
            if hold.starts_ms <= at_ms < hold.ends_ms:
                _add(free, hold, -1)
        return np.asarray(free, np.int64)

    def times(self) -> list[int]:
        """The times at which room becomes free, in order."""
        others = [one.to_ms for one in self._bookings()]
        others.extend(hold.ends_ms for hold in self.holds.values() if hold.ends_ms < NEVER_MS)
        return sorted({at for at in (*self.ends.times(), *others) if at > self.now_ms})

    def hold(self, pending: PendingSession, kernels: Sequence[TentativeKernel], starts_ms: int) -> None:
        """Hold room for a session from a time on."""
        width = self._workspace.width
        amounts: dict[int, Ints] = {}
        for batch, _, agent in kernels:
            amounts[agent] = amounts.get(agent, np.zeros(width, np.int64)) + batch.shape.both[:width]
        seats = tuple((str(kernel.kernel_id), agent) for _, kernel, agent in kernels)
        ends_ms = pending.session.ends_by(starts_ms)
        hold = Hold(pending, seats, starts_ms, ends_ms, tuple(amounts.items()))
        self._restore(hold)
        self._explain_without(hold)

    def _explain_without(self, hold: Hold) -> None:
        """Let the reason of a session be explained without the room that is held for itself."""
        pending, bits = hold.pending, self._concerning(hold.pending.session, hold.pending.session.ends_by(self.now_ms))
        for number, block in enumerate(self.blocks):
            if block.booking is None and hold.starts_ms <= block.at_ms < hold.ends_ms:
                bits &= ~(1 << number)
        reason = pending.reason
        if reason is not None and reason.shape is not None:
            pending.reason = reason._replace(shape=reason.shape.during(bits, self._workspace))

    def _restore(self, hold: Hold) -> None:
        if not any(block.booking is None and block.at_ms == hold.starts_ms for block in self.blocks):
            self._add_block(Block(hold.starts_ms))[:] = self._free_at(hold.starts_ms)
        self._change(hold, -1)
        self.holds[str(hold.pending.session.session_id)] = hold
        hold.pending.starts_ms = hold.starts_ms

    def release(self, session_id: str) -> Hold | None:
        """Give up what is held for a session."""
        hold = self.holds.pop(session_id, None)
        if hold is not None:
            self._change(hold, 1)
            hold.pending.starts_ms = None
        return hold

    def take_back(self, hold: Hold | None) -> None:
        """Hold again what was given up for a trial."""
        if hold is not None:
            self._restore(hold)

    def _change(self, hold: Hold, times: int) -> None:
        for number, block in enumerate(self.blocks):
            if block.booking is None and hold.starts_ms <= block.at_ms < hold.ends_ms:
                _add(self._block(number), hold, times)
        self._workspace.log.extend(agent for agent, _ in hold.amounts)

    def reservations(self) -> Iterator[Reservation]:
        """The holds as reservations with a time."""
        ids = self._workspace.ids
        for hold in self.holds.values():
            kernels = tuple((kernel, ids[agent]) for kernel, agent in hold.kernels)
            yield Reservation(hold.pending.session.session_id, kernels, hold.starts_ms)  # type: ignore[arg-type]  # ids are plain text

    def booked_for_others(self, pending: PendingSession) -> str:
        """The bookings that begin before a session ends, on agents that could hold it."""
        if not self._agents:
            return ""
        shapes = [batch.shape for batch in (*pending.batches, *pending.best_effort)]
        own = self._agents.get(pending.session.booking)
        concerning = self._concerning(pending.session, pending.session.ends_by(self.now_ms))
        found = [
            f"{_agents_are(len(agents))} {self.sentence(number)}"
            for number, block in enumerate(self.blocks)
            if block.booking is not None and not block.inside and concerning >> number & 1
            for booked in [self._agents[block.booking.name]]
            for agents in [booked if own is None else np.intersect1d(booked, own)]
            if any(shape.eligible[agents].any() for shape in shapes)
        ]
        more = f"; {len(found) - SHOWN_MAX} more bookings" if len(found) > SHOWN_MAX else ""
        return "; ".join(found[:SHOWN_MAX]) + more

    def sentence(self, number: int) -> str:
        """The reason why room is held from the time of a block on."""
        block = self.blocks[number]
        begins = "now" if block.at_ms <= self.now_ms else f"in {duration_text_of(block.at_ms - self.now_ms)}"
        if block.booking is None:
            return f"reserved for a session ahead {begins}"
        if block.inside:
            return f"not in its booking {block.booking.name}"
        return f"booked by {block.booking.name} {begins}"


def holder_on(calendar: Calendar, row: int) -> str:
    """The first session that holds room on an agent from a time on."""
    return next((name for name, hold in calendar.holds.items() if any(at == row for _, at in hold.kernels)), "")


def may_leave(session: SessionWorkload) -> bool:
    """Whether a booking may evict a session, as far as its kernels may be evicted."""
    return session.preemptible and session.session_type is not SessionType.SYSTEM


def lends(booking: Booking, session: SessionWorkload, now_ms: int) -> bool:
    """Whether a booking lends its agents to a session until it begins."""
    if booking.return_s is None or not session.borrow or session.grace_ms > booking.return_s * 1000:
        return False
    notice_at_ms = booking.from_ms - session.grace_ms - BOOKING_LEAD_MS
    return evictable(session) and notice_at_ms - now_ms >= LENT_MIN_MS


def _agents_are(count: int) -> str:
    return "1 agent that could hold it is" if count == 1 else f"{count} agents that could hold it are"


def _add(room: Ints, hold: Hold, times: int) -> None:
    for agent, amounts in hold.amounts:
        room[agent] += amounts * times


def blocks_of_running(calendar: Calendar, session: SessionWorkload) -> int:
    """The blocks of holds in which a running session counts, as bits."""
    ends_ms = end_of(session, calendar.now_ms)
    return sum(1 << i for i, block in enumerate(calendar.blocks) if block.booking is None and block.at_ms < ends_ms)
