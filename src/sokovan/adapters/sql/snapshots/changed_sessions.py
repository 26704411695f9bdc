"""Loads changed sessions and their kernels into the system view."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.arrays import SqlArrays
from sokovan.adapters.sql.rows import packed_rows
from sokovan.adapters.sql.schema.tables import EVICTED, KERNELS, SESSIONS
from sokovan.adapters.sql.snapshots.kernel_digests import read_digests
from sokovan.adapters.sql.snapshots.past_evictions import HOUR_MS, overdue_ms
from sokovan.adapters.sql.snapshots.system_view import SystemView
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.owners.session_turns import UnreadSessions
from sokovan.domain.records import SessionResult

_ENDED = [status.value for status in SESSION.terminal]
_SESSION_COLUMNS = [
    SESSIONS.c[name]
    for name in (
        "session_id", "place", "status", "scaling_group", "queue", "user", "group", "domain", "access_key", "result",
        "hypernode", "failed_starts", "array_id", "body", "since_ms", "evictions", "checkpoint_ms", "loan",
        "scheduled_ms", "ended_ms",
    )
]  # fmt: skip
_LIVE = sa.select(*_SESSION_COLUMNS).where(SESSIONS.c.status.not_in(_ENDED))
# Their conditions are those of a partial index.
_ENDED_LATELY = sa.select(
    *(SESSIONS.c[name] for name in ("session_id", "scaling_group", "queue", "user", "evictions"))
).where(SESSIONS.c.ended_ms > sa.bindparam("since_ms"), EVICTED)
_CHANGED = sa.select(*_SESSION_COLUMNS).where(SESSIONS.c.stamp >= sa.bindparam("since"))
_SOME_CHANGED = _CHANGED.limit(sa.bindparam("most", type_=sa.Integer))
_CHANGED_USERS = sa.select(SESSIONS.c.session_id, SESSIONS.c.user).where(SESSIONS.c.stamp >= sa.bindparam("since"))


class PlacedKernel(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The columns of a kernel's row that its workload follows from."""

    kernel_id: str
    status: str
    agent_id: str | None
    slots: str
    ports: str
    rank: int | None


_KERNEL_COLUMNS = [KERNELS.c[name] for name in PlacedKernel.__struct_fields__]
_KERNEL_STATES = msgspec.json.Decoder(list[PlacedKernel])


class ChangedSessions:
    """Reads changed sessions into a view, of many new ones a part at a time."""

    def __init__(self) -> None:
        self._unread = UnreadSessions()

    @property
    def is_behind(self) -> bool:
        """Whether the last refresh left new sessions for the next one."""
        return len(self._unread) > 0

    async def refresh(
        self, transaction: Transaction, view: SystemView, *, since: int | None, at_once: int | None = None
    ) -> None:
        """Load all sessions written since a stamp, of more new ones only `at_once`.

        Without a stamp, all that have not ended.
        """
        new: Sequence[SessionId] = ()
        if since is None:
            rows = await transaction.fetch(_LIVE)
            self._unread.clear()
        else:
            rows, new = await self._changed(transaction, view, since=since, at_once=at_once)
        digests = {} if since is None else await read_digests(transaction, rows)
        same = {one for one, digest in digests.items() if view.digests.get(one) == digest}
        kernels = await _kernels(transaction, [row for row in rows if row.session_id not in same], since)
        for row in rows:
            found = None if row.session_id in same else kernels.get(row.session_id, ())
            view.put_session(row, found, ended=row.status in _ENDED)
            if row.session_id in digests and row.status not in _ENDED:
                view.digests[row.session_id] = digests[row.session_id]
        self._unread.remove(new)
        if since is None:
            await _releasing(transaction, view)
            for row in await transaction.fetch(_ENDED_LATELY, {"since_ms": transaction.now_ms - HOUR_MS}):
                view.past_evictions.put(row, ended=True)
        await _takers(transaction, view)
        await _outcomes(transaction, view, [row.session_id for row in rows if row.status not in _ENDED])
        if view.unsettled:
            arrays = await SqlArrays(transaction).outcomes(view.unsettled)
            view.outcomes.update({SessionId(one): succeeded for one, succeeded in arrays.items()})
            view.unsettled.clear()

    async def _changed(
        self, transaction: Transaction, view: SystemView, *, since: int, at_once: int | None
    ) -> tuple[Sequence[Any], Sequence[SessionId]]:
        """The rows of sessions that changed since a stamp, and those of them that had been left for later."""
        if not self._unread:
            if at_once is None:
                return await transaction.fetch(_CHANGED, {"since": since}), ()
            rows = await transaction.fetch(_SOME_CHANGED, {"since": since, "most": at_once + 1})
            if len(rows) <= at_once:
                return rows, ()
        changed = await transaction.fetch(_CHANGED_USERS, {"since": since})
        users = {SessionId(row.session_id): row.user for row in changed}
        self._unread.add({one: user for one, user in users.items() if one not in view.group_of})
        new = self._unread.next_part(len(self._unread) if at_once is None else at_once)
        ids = [*(one for one in users if one in view.group_of), *new]
        return await transaction.fetch(_by_id(transaction.postgresql), bound_ids(transaction, ids)), new


async def _kernels(transaction: Transaction, rows: Sequence[Any], since: int | None) -> dict[str, list[PlacedKernel]]:
    if not rows:
        return {}
    live, chosen = _kernel_statements(transaction.postgresql)
    bound = None if since is None else bound_ids(transaction, [row.session_id for row in rows])
    found = await transaction.fetch(live if since is None else chosen, bound)
    return {row.session_id: _KERNEL_STATES.decode(row.packed) for row in found}


async def _releasing(transaction: Transaction, view: SystemView) -> None:
    """Load kernels of force-terminated sessions; they hold their slots until a proof arrives."""
    statement = (
        sa.select(KERNELS.c.kernel_id, KERNELS.c.agent_id, KERNELS.c.slots, SESSIONS.c.evictions)
        .join(SESSIONS, SESSIONS.c.session_id == KERNELS.c.session_id)
        .where(KERNELS.c.status == KernelStatus.TERMINATING.value, SESSIONS.c.status.in_(_ENDED))
    )
    for row in await transaction.fetch(statement):
        view.set_releasing(row, late_ms=overdue_ms(row.evictions))


async def _takers(transaction: Transaction, view: SystemView) -> None:
    """Load the sessions that others were evicted for; later changes of them are among the changed sessions."""
    unknown = view.past_evictions.unknown_takers()
    if unknown:
        for row in await transaction.fetch(_by_id(transaction.postgresql), bound_ids(transaction, unknown)):
            view.past_evictions.put_taker(row)


async def _outcomes(transaction: Transaction, view: SystemView, ids: Sequence[str]) -> None:
    """Load the results of the dependencies of these sessions; most have none."""
    wanted = view.dependencies_of(ids)
    if not wanted:
        return
    for row in await transaction.fetch(_results(transaction.postgresql), bound_ids(transaction, wanted)):
        if row.status in _ENDED:
            view.outcomes[SessionId(row.session_id)] = row.result == SessionResult.SUCCESS.value


@cache
def _kernel_statements(postgresql: bool) -> tuple[sa.Select[Any], sa.Select[Any]]:  # noqa: FBT001  # a key of the cache
    """Select the kernels of all sessions that have not ended, and of chosen sessions."""
    live = sa.select(SESSIONS.c.session_id).where(SESSIONS.c.status.not_in(_ENDED))
    chosen = sa.select(ids_table(postgresql).c.id)
    of, order = KERNELS.c.session_id, KERNELS.c.index
    every, some = (
        packed_rows(_KERNEL_COLUMNS, of.in_(wanted), key=of, order=order, postgresql=postgresql)
        for wanted in (live, chosen)
    )
    return every, some


@cache
def _by_id(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    return sa.select(*_SESSION_COLUMNS).where(SESSIONS.c.session_id.in_(sa.select(ids_table(postgresql).c.id)))


@cache
def _results(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the results of sessions by id, and by nothing else.

    With the status in the condition SQLite read every session that has ended.
    """
    wanted = sa.select(ids_table(postgresql).c.id)
    return sa.select(SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.result).where(
        SESSIONS.c.session_id.in_(wanted)
    )
