"""Sessions as the store has them. Every write names what it was decided on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.records import Change, HistoryEntry, KernelMove, SessionRecord
from sokovan.domain.session import SessionSpec


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An idempotency key: who sent it, the key, and a digest of what was asked."""

    scope: str
    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to store, who wants it, and the key of the request for it."""

    spec: SessionSpec
    change: Change
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions to list; an empty field does not limit."""

    statuses: Collection[SessionStatus] = ()
    scaling_group: str = ""
    user: str = ""
    ids: Collection[SessionId] = ()
    group: str = ""
    domain: str = ""
    queue: str = ""
    name: str = ""


class SessionRepository(Protocol):
    """Sessions with their kernels. A session's status follows from its kernels."""

    async def enqueue(
        self,
        spec: SessionSpec,
        change: Change,
        *,
        request: RequestKey | None = None,
        in_place_of: SessionId | None = None,
    ) -> SessionRecord:
        """Store a new session, PENDING, with its kernels.

        Sessions that wait for `in_place_of` wait for the new one instead. The same request
        again gives the session it made. Raises IdempotencyConflict,
        Conflict (the id is taken, or the name by a session of the same user that has not
        ended), NotFound (scaling group, dependency).
        """

    async def enqueue_many(self, wanted: Sequence[NewSession]) -> Sequence[SessionRecord | SokovanError]:
        """Store many new sessions, each as `enqueue` would; what came of each.

        A refusal stands in the place of its session, and takes no other with it.
        """

    async def requested(self, request: RequestKey) -> SessionRecord | None:
        """The session that the same request made before. Raises IdempotencyConflict."""

    async def get(self, session_id: SessionId) -> SessionRecord:
        """One session. Raises NotFound."""

    async def page(
        self, wanted: SessionFilter, *, limit: int, after: int | None = None, newest: bool = False
    ) -> Sequence[SessionRecord]:
        """At most `limit` sessions after the place `after`, oldest or newest first."""

    async def named(self, text: str, wanted: SessionFilter) -> Sequence[SessionRecord]:
        """The sessions that `text` may mean, among those wanted; two are enough to doubt.

        An id; else a name of sessions that have not ended, which one user has only once; else
        a name of the newest that has; else the beginning of ids or of names of sessions that
        have not ended.
        """

    async def move_kernels(self, moves: Sequence[KernelMove], change: Change) -> SessionRecord:
        """Move kernels of one session; the session follows in the same step.

        GONE is not among the moves: only `Ledger.free` makes it. Raises StaleVersion,
        IllegalTransition, ForbiddenCause, and InvalidSpec for no moves at all.
        """

    async def move_many(self, moves: Sequence[KernelMove], change: Change) -> Sequence[SessionRecord]:
        """Like `move_kernels`, for many sessions at once, each whole or not at all.

        Gives the sessions that moved, by id. One that was changed since it was read is left
        out, and disturbs no other. Raises IllegalTransition, ForbiddenCause.
        """

    async def set_goal(self, session_id: SessionId, goal: Goal, change: Change) -> SessionRecord:
        """Raise the goal: stop, or force. A goal that is reached already changes nothing.

        Kernels that wait are withdrawn, those alive are asked to stop. The first cause
        stays. Raises NotFound.
        """

    async def note(self, session_ids: Sequence[SessionId], change: Change) -> None:
        """Record why these sessions stay where they are; a repeated reason is counted."""

    async def history(self, session_id: SessionId, *, kernels: bool = False) -> Sequence[tuple[str, HistoryEntry]]:
        """The story of a session, and of its kernels, as (id, entry) in the order of time."""

    async def changed(self, since: int | None) -> tuple[int, Mapping[SessionId, int]]:
        """The next mark, and the sessions written since the mark `since`, by version.

        For a unit of work that reads only. Without a mark nothing is named: it is where
        to begin. A session may be named again, and is never left out.
        """
