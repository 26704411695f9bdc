"""Bookings: agents that are kept for some owners in a period.

A maintenance window is a booking without permitted owners. Sessions name the booking that they
run in. Before it begins, others may use its agents if they end by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int, require_kind, require_tuple
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import checked_name
from sokovan.domain.owners.tenancy import Owner

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

    `users`, `groups` and `queues` say who may use it; anyone of them may. A booking that no
    session uses `release_unused_s` after it began is given up.
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

    def __post_init__(self) -> None:
        checked_name(self.name, what="booking")
        what = f"booking {self.name}"
        require_kind(self.kind, BookingKind, what=what, field="kind")
        require_int(self.from_ms, what=what, field="from", least=0)
        require_int(self.to_ms, what=what, field="to", least=0)
        require_int(self.release_unused_s, what=what, field="release_unused_s", least=0)
        for field in ("agents", "users", "groups", "queues"):
            require_tuple(getattr(self, field), str, what=what, field=field)
        if self.to_ms <= self.from_ms:
            raise InvalidSpec(what=what, field="to", value=self.to_ms, problem="must be after its beginning")
        if bool(self.agents) == (self.hypernode is not None):
            problem = "needs either agents or a hypernode"
            raise InvalidSpec(what=what, field="agents", value=self.agents, problem=problem)
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
    """A session on an agent, and by when it has ended; None if that is not known."""

    agent: str
    session: str
    ends_ms: int | None = None


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
    starts_ms, reason = booking.from_ms, ""
    for use in uses:
        if use.agent not in wanted:
            continue
        if use.ends_ms is None:
            return None, f"session {use.session} on agent {use.agent} has no time limit"
        if use.ends_ms > starts_ms:
            starts_ms, reason = use.ends_ms, f"session {use.session} on agent {use.agent} may run for longer"
    # In the order of their beginning, one pass is enough: one that was passed before ends before.
    for other, theirs in sorted(others, key=lambda one: one[0].from_ms):
        overlaps = other.from_ms < starts_ms + length_ms and other.to_ms > starts_ms
        if overlaps and other.name != booking.name and not wanted.isdisjoint(theirs):
            shared = min(wanted.intersection(theirs))
            starts_ms, reason = other.to_ms, f"agent {shared} is booked by {other.name}"
    return starts_ms, reason
