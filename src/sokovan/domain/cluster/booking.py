"""Bookings: agents that are kept for some owners in a period.

A maintenance window is a booking without permitted owners. Sessions name the booking that they
run in. Before it begins, others may use its agents if they end by then, or borrow them. What may be
evicted is not in its way: it leaves in time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int, require_kind, require_slots, require_tuple
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import checked_name
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

RELEASE_UNUSED_DEFAULT_S = 600
AGENTS_MAX = 10_000
# Stored bookings; those that have ended are removed first.
BOOKINGS_MAX = 1_000


class BookingKind(StrEnum):
    """Whether the agents are kept for owners or for maintenance."""

    BOOKING = auto()
    MAINTENANCE = auto()


@dataclass(frozen=True, slots=True)
class Booking:
    """Whole agents from a time to a time, by name or all below a HyperNode.

    With `slots` and without agents, agents that together have so much are chosen when it is made.
    `users`, `groups` and `queues` say who may use it; anyone of them may. A booking that no
    session uses `release_unused_s` after it began is given up. Before it begins, its agents are
    lent to sessions that borrow, if they end within `return_s` of a notice; None for no loans.
    """

    name: str
    from_ms: int
    to_ms: int
    kind: BookingKind = BookingKind.BOOKING
    agents: tuple[str, ...] = ()
    hypernode: str | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    release_unused_s: int = RELEASE_UNUSED_DEFAULT_S
    slots: ResourceSlot = NO_SLOTS
    return_s: int | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, what="booking")
        what = f"booking {self.name}"
        require_kind(self.kind, BookingKind, what=what, field="kind")
        require_int(self.from_ms, what=what, field="from", least=0)
        require_int(self.to_ms, what=what, field="to", least=0)
        require_int(self.release_unused_s, what=what, field="release_unused_s", least=0)
        if self.return_s is not None:
            require_int(self.return_s, what=what, field="return_s", least=0)
        for field in ("agents", "users", "groups", "queues"):
            require_tuple(getattr(self, field), str, what=what, field=field)
        if self.to_ms <= self.from_ms:
            raise InvalidSpec(what=what, field="to", value=self.to_ms, problem="must be after its beginning")
        require_slots(self.slots, what=what, field="slots")
        if bool(self.agents or self.slots) == (self.hypernode is not None):
            problem = "needs agents, slots or a hypernode, and one of them only"
            raise InvalidSpec(what=what, field="agents", value=self.agents, problem=problem)
        if self.kind is BookingKind.MAINTENANCE and self.slots:
            problem = "must be empty: name the agents that are in maintenance"
            raise InvalidSpec(what=what, field="slots", value=self.slots, problem=problem)
        if len(self.agents) > AGENTS_MAX:
            raise InvalidSpec(what=what, field="agents", value=len(self.agents), problem=f"are more than {AGENTS_MAX}")
        if self.kind is BookingKind.MAINTENANCE and (self.users or self.groups or self.queues):
            problem = "must be empty: no session uses agents in maintenance"
            raise InvalidSpec(what=what, field="users", value=self.users, problem=problem)

    def permits(self, owner: Owner, queue: str) -> bool:
        """Whether sessions of an owner in a queue may name it."""
        return owner.user in self.users or owner.group in self.groups or queue in self.queues

    def released_at(self) -> int:
        """The time at which it is given up without a session; maintenance is not."""
        if self.kind is BookingKind.MAINTENANCE:
            return self.to_ms
        return min(self.to_ms, self.from_ms + self.release_unused_s * 1000)


@dataclass(frozen=True, slots=True)
class AgentUse:
    """A session on an agent, and by when it has ended; None if that is not known.

    `evicted`: by then an eviction has ended it that begins now.
    """

    agent: str
    session: str
    ends_ms: int | None = None
    evicted: bool = False


def earliest_start(
    booking: Booking,
    agents: Collection[str],
    uses: Iterable[AgentUse],
    others: Iterable[tuple[Booking, Collection[str]]],
) -> tuple[int | None, str]:
    """The earliest beginning of a booking with its length, and what is in the way.

    `agents` are its agents, `others` the other bookings with theirs. None if a session may run
    there for ever.
    """
    wanted, length_ms = set(agents), booking.to_ms - booking.from_ms
    starts_ms, reason, then = booking.from_ms, "", ""
    for use in uses:
        if use.agent not in wanted:
            continue
        if use.ends_ms is None:
            return None, f"session {use.session} on agent {use.agent} has no time limit"
        if use.ends_ms > starts_ms:
            problem = "could not be evicted by then, with its grace" if use.evicted else "may run for longer"
            starts_ms, reason = use.ends_ms, f"session {use.session} on agent {use.agent} {problem}"
    # In the order of their beginning, one pass is enough: one that was passed before ends before.
    for other, theirs in sorted(others, key=lambda one: one[0].from_ms):
        overlaps = other.from_ms < starts_ms + length_ms and other.to_ms > starts_ms
        if overlaps and other.name != booking.name and not wanted.isdisjoint(theirs):
            shared = min(wanted.intersection(theirs))
            problem = f"agent {shared} is booked by {other.name}"
            # The obstacle at the wanted time is named first; a later one does not replace it.
            starts_ms, reason, then = other.to_ms, reason or problem, f"; then {problem}" if reason else ""
    return starts_ms, reason + then


def agents_in_use(
    booking: Booking, uses: Iterable[AgentUse], others: Iterable[tuple[Booking, Collection[str]]]
) -> set[str]:
    """The agents in use when a booking begins, or booked by others in its time."""
    busy = {use.agent for use in uses if use.ends_ms is None or use.ends_ms > booking.from_ms}
    for other, theirs in others:
        if other.from_ms < booking.to_ms and other.to_ms > booking.from_ms and other.name != booking.name:
            busy.update(theirs)
    return busy


def agents_with(slots: ResourceSlot, candidates: Mapping[str, ResourceSlot]) -> tuple[str, ...]:
    """The fewest agents that together have so much; none if all have less."""
    useful = [name for name, has in candidates.items() if any(has[slot] for slot in slots)]
    useful.sort(key=lambda name: ([-candidates[name][slot] for slot in sorted(slots)], name))
    chosen: list[str] = []
    left = dict(slots.items())
    for name in useful[:AGENTS_MAX]:
        if all(amount <= 0 for amount in left.values()):
            break
        if any(amount > 0 and candidates[name][slot] for slot, amount in left.items()):
            chosen.append(name)
            left = {slot: amount - candidates[name][slot] for slot, amount in left.items()}
    return tuple(chosen) if all(amount <= 0 for amount in left.values()) else ()
