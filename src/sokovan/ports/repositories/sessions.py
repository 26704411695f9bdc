"""Repository of sessions. Writes are compare-and-set on the version read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Protocol, TypeAlias

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.constraints.labels import LabelSelector
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.owners.usage_history import UsageBy, UsageOf, UsageSeries, UsageWindow
from sokovan.domain.records import (
    Change,
    HistoryEntry,
    KernelMove,
    KernelRecord,
    KernelSummary,
    SessionRecord,
    SessionSummary,
)
from sokovan.domain.session import SessionSpec

# Sessions that readers of many ask for at a time.
PAGE = 500
# A session or a booking that others were evicted for.
Taker: TypeAlias = SessionRecord | Booking


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An idempotency key: the sender, the key and a digest of the request."""

    scope: str
    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to store, with its author, its idempotency key and its sealed secrets."""

    spec: SessionSpec
    change: Change
    request: RequestKey | None = None
    sealed: str = ""


# Sessions that are searched for words; no index finds a part of a name.
SEARCHED_MAX = 100_000


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """A filter of sessions; an empty field matches all.

    `reason` is the code of the verdict on sessions that wait. With `since_ms` sessions match
    that had not ended then, with `until_ms` those that were submitted before. Each of `words`
    is part of the name, the id, the user or the queue, in any case; they are looked for among
    the newest SEARCHED_MAX sessions. `evicted_for` is a booking that one of their receipts names.
    """

    statuses: Collection[SessionStatus] = ()
    scaling_group: str = ""
    user: str = ""
    ids: Collection[SessionId] = ()
    group: str = ""
    domain: str = ""
    queue: str = ""
    name: str = ""
    labels: Collection[LabelSelector] = ()
    array_id: str = ""
    outside_arrays: bool = False
    session_type: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    reason: str = ""
    words: Collection[str] = ()
    evicted_for: str = ""


class SessionProperty(StrEnum):
    """A property that sessions are counted by."""

    STATUS = auto()
    QUEUE = auto()
    USER = auto()
    GROUP = auto()
    SCALING_GROUP = auto()


class SessionSort(StrEnum):
    """A property that lists of sessions are sorted by.

    `name` is the id of sessions without one; `gpus` are accelerators; `reason` is why a session is
    PENDING or has ended.
    """

    SUBMITTED = auto()
    NAME = auto()
    USER = auto()
    QUEUE = auto()
    STATUS = auto()
    KERNELS = auto()
    GPUS = auto()
    REASON = auto()


@dataclass(frozen=True, slots=True)
class SessionOrder:
    """An order of sessions, rising or falling; equal ones come newest first."""

    by: SessionSort = SessionSort.SUBMITTED
    falls: bool = False


@dataclass(frozen=True, slots=True)
class SessionPosition:
    """A position in a sorted list: the place of a session, and its value there."""

    place: int
    value: str | int = ""


OLDEST_FIRST = SessionOrder()
# The value of sessions without a reason, after all reasons.
NO_REASON = "~"


class SessionRepository(Protocol):
    """Sessions with their kernels; the session's status is derived from them."""

    async def enqueue(
        self,
        spec: SessionSpec,
        change: Change,
        *,
        request: RequestKey | None = None,
        in_place_of: SessionId | None = None,
        sealed: str = "",
    ) -> SessionRecord:
        """Store a new session, PENDING, with its kernels.

        Sessions that depend on `in_place_of`, also ones stored later, depend on the new
        one instead. `sealed` are its secret variables, which are removed at its end. The same
        request again returns the session it created. Raises
        IdempotencyConflict, Conflict (the id is in use, or the name by a session of the
        same user that has not ended), ObjectNotFound (scaling group, dependency).
        """

    async def enqueue_many(self, wanted: Sequence[NewSession]) -> Sequence[SessionRecord | SokovanError]:
        """Store many new sessions, each as `enqueue` would; the result of each.

        An error stands in the place of its session, and affects no other.
        """

    async def requested(self, request: RequestKey) -> SessionRecord | None:
        """The session that the same request created before. Raises IdempotencyConflict."""

    async def get(self, session_id: SessionId) -> SessionRecord:
        """One session. Raises ObjectNotFound."""

    async def page(
        self, wanted: SessionFilter, *, limit: int, after: int | None = None, newest: bool = False
    ) -> Sequence[SessionRecord]:
        """At most `limit` sessions after the position `after`, oldest or newest first."""

    async def summaries(
        self,
        wanted: SessionFilter,
        *,
        limit: int,
        after: SessionPosition | None = None,
        order: SessionOrder = OLDEST_FIRST,
        kernels_max: int = 0,
    ) -> Sequence[SessionSummary]:
        """Like `page`, in any order, with the first `kernels_max` kernels of each session.

        The cost does not grow with the number of equal kernels.
        """

    async def named(self, text: str, wanted: SessionFilter, *, kernels_max: int = 0) -> Sequence[SessionSummary]:
        """The matching sessions that `text` refers to; at most two, if ambiguous.

        An id; else the name of sessions that have not ended, unique per user; else the
        name of the newest one that has ended; else a prefix of ids or names of sessions
        that have not ended. Each has its first `kernels_max` kernels only.
        """

    async def pending_count(self, user: str, *, most: int) -> int:
        """How many sessions of a user are PENDING; counting ends at `most`."""

    async def counts(self, wanted: SessionFilter, by: SessionProperty, *, most: int) -> Mapping[str, int]:
        """How many matching sessions have each value of a property.

        The most frequent ones first, at most `most` of them.
        """

    async def usage_history(
        self, wanted: SessionFilter, window: UsageWindow, by: UsageBy, of: UsageOf = UsageOf.SLOTS
    ) -> Sequence[UsageSeries]:
        """The slots that matching sessions held in each step of a window.

        By name and slot. Exact, from the rows of the ledger, as long as their sessions are stored. Names and
        slots of which nothing was held are left out. `ids` and `labels` of the filter are ignored. Of sessions,
        a `SessionLevel` is in place of the slot; one that was started again counts as waiting until its last start.
        Of agents, those that take kernels are counted, all together; only the scaling group of the filter is used.
        """

    async def kernel_counts(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, KernelSummary]:
        """The kernels of sessions in figures, whatever their number."""

    async def kernels(self, session_id: SessionId, *, limit: int, after: int = -1) -> Sequence[KernelRecord]:
        """At most `limit` kernels of a session with an index above `after`, in order."""

    async def move_kernels(self, moves: Sequence[KernelMove], change: Change) -> SessionRecord:
        """Apply transitions to kernels of one session, and to the session itself.

        GONE is not allowed: only `Ledger.free` applies it. Raises StaleVersion,
        IllegalTransition, ForbiddenCause, and InvalidSpec if `moves` is empty.
        """

    async def move_many(
        self, moves: Sequence[KernelMove], change: Change, *, known: Mapping[SessionId, SessionRecord] | None = None
    ) -> Sequence[SessionRecord]:
        """Like `move_kernels` for many sessions at once, each of them atomically.

        Returns the changed sessions, by id. Sessions that changed concurrently are
        skipped. `known` are sessions as they were read before: one that has not changed since is
        not read again. Raises IllegalTransition, ForbiddenCause, StaleVersion.
        """

    async def move_in_steps(
        self,
        steps: Sequence[tuple[Change, Sequence[KernelMove]]],
        *,
        known: Mapping[SessionId, SessionRecord] | None = None,
        takers: Mapping[SessionId, Taker] | None = None,
    ) -> Sequence[SessionRecord]:
        """Like `move_many` for several moves of each kernel, with a reason for each step.

        All moves name kernels as they were before the first step. The history has every
        step; the sessions and kernels themselves are written once. `takers` are those that
        sessions were evicted for, as they were read: a session whose taker has changed since is
        skipped, and until the commit a taker does not change.
        """

    async def set_goal(
        self, session_id: SessionId, goal: Goal, change: Change, *, known: SessionRecord | None = None
    ) -> SessionRecord:
        """Raise the goal to STOP or FORCE; does nothing if it is already reached.

        Pending kernels are withdrawn, live ones are requested to stop. The first cause is
        kept. A `known` record that is current is not read again. Raises ObjectNotFound.
        """

    async def set_goals(self, session_ids: Sequence[SessionId], goal: Goal, change: Change) -> Sequence[SessionRecord]:
        """Like `set_goal` for many sessions at once; returns those that changed, by id."""

    async def release(self, session_id: SessionId, gates: Collection[str], change: Change) -> SessionRecord:
        """Open gates of a pending session; those that are open already stay so.

        The history notes the change. Raises ObjectNotFound, and Conflict if the session has
        closed gates and is not pending.
        """

    async def release_many(
        self, session_ids: Sequence[SessionId], gates: Collection[str], change: Change
    ) -> Sequence[SessionId]:
        """Like `release` for many sessions at once; returns those that changed, by id.

        Sessions that are not pending are skipped.
        """

    async def save_checkpoints(self, at_ms: Mapping[SessionId, int]) -> Sequence[SessionId]:
        """Store when sessions last reported a checkpoint.

        Returns those that changed, by id. Times do not go back, and are not later than now. Ended sessions are skipped.
        """

    async def note(self, session_ids: Sequence[SessionId], change: Change) -> None:
        """Record why these sessions stay in their status; repeated reasons are counted."""

    async def history(
        self, session_id: SessionId, *, kernels: bool = False, limit: int | None = None, skip: int = 0
    ) -> Sequence[tuple[str, HistoryEntry]]:
        """The history of a session, and of its kernels, as (id, entry) in order of time.

        At most `limit` entries, after the first `skip`.
        """

    async def users_of(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, str]:
        """The users of sessions, as far as these exist, the oldest session first."""

    async def waiting_users(self) -> Mapping[SessionId, str]:
        """The users of all PENDING sessions, the oldest session first."""

    async def ended_holding(self) -> Sequence[SessionId]:
        """The sessions that have ended while kernels of them still hold slots, by id."""

    async def changed(self, since: int | None) -> tuple[int, Mapping[SessionId, int]]:
        """The next change marker, and the sessions written since marker `since`.

        Sessions are given with their version. Use it in a read-only unit of work. Without
        a marker no session is listed. A session may be listed again, and is never left
        out.
        """
