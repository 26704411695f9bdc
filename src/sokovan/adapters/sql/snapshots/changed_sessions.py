"""Loads changed sessions and their kernels into the system view."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.arrays import SqlArrays
from sokovan.adapters.sql.repositories.sessions.session_rows import slots_of
from sokovan.adapters.sql.schema.tables import KERNELS, SESSIONS
from sokovan.adapters.sql.snapshots.system_view import SystemView
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.records import SessionResult

_ENDED = [status.value for status in SESSION.terminal]
_SESSION_COLUMNS = [
    SESSIONS.c[name]
    for name in (
        "session_id", "place", "status", "scaling_group", "user", "group", "domain", "access_key", "result",
        "hypernode", "failed_starts", "array_id", "body", "since_ms", "evictions", "checkpoint_ms", "loan",
    )
]  # fmt: skip
_KERNEL_COLUMNS = [
    KERNELS.c[name] for name in ("kernel_id", "session_id", "status", "agent_id", "slots", "ports", "rank")
]
_LIVE = sa.select(*_SESSION_COLUMNS).where(SESSIONS.c.status.not_in(_ENDED))
_CHANGED = sa.select(*_SESSION_COLUMNS).where(SESSIONS.c.stamp >= sa.bindparam("since"))
_KERNELS = sa.select(*_KERNEL_COLUMNS).order_by(KERNELS.c.session_id, KERNELS.c.index)
_LIVE_KERNELS = _KERNELS.where(
    KERNELS.c.session_id.in_(sa.select(SESSIONS.c.session_id).where(SESSIONS.c.status.not_in(_ENDED)))
)


async def refresh_sessions(transaction: Transaction, view: SystemView, *, since: int | None) -> None:
    """Load all sessions written since a stamp.

    Without a stamp, all that have not ended.
    """
    changed, known = (_LIVE, None) if since is None else (_CHANGED, {"since": since})
    rows = await transaction.fetch(changed, known)
    kernels = await _kernels(transaction, rows, since)
    for row in rows:
        view.put_session(row, kernels.get(row.session_id, ()), ended=row.status in _ENDED)
    if since is None:
        await _releasing(transaction, view)
    await _outcomes(transaction, view, [row.session_id for row in rows if row.status not in _ENDED])
    if view.unsettled:
        arrays = await SqlArrays(transaction).outcomes(view.unsettled)
        view.outcomes.update({SessionId(one): succeeded for one, succeeded in arrays.items()})
        view.unsettled.clear()


async def _kernels(transaction: Transaction, rows: Sequence[Any], since: int | None) -> dict[str, list[Any]]:
    if since is None:
        found = await transaction.fetch(_LIVE_KERNELS)
    else:
        bound = bound_ids(transaction, [row.session_id for row in rows])
        found = await transaction.fetch(_kernels_of(transaction.postgresql), bound)
    kernels: dict[str, list[Any]] = {}
    for kernel in found:
        kernels.setdefault(kernel.session_id, []).append(kernel)
    return kernels


async def _releasing(transaction: Transaction, view: SystemView) -> None:
    """Load kernels of force-terminated sessions; they hold their slots until a proof arrives."""
    statement = (
        sa.select(KERNELS.c.kernel_id, KERNELS.c.agent_id, KERNELS.c.slots)
        .join(SESSIONS, SESSIONS.c.session_id == KERNELS.c.session_id)
        .where(KERNELS.c.status == KernelStatus.TERMINATING.value, SESSIONS.c.status.in_(_ENDED))
    )
    for row in await transaction.fetch(statement):
        view.set_releasing(row.kernel_id, row.agent_id, slots_of(row.slots))


async def _outcomes(transaction: Transaction, view: SystemView, ids: Sequence[str]) -> None:
    """Load the results of the dependencies of these sessions; most have none."""
    wanted = view.dependencies_of(ids)
    if not wanted:
        return
    for row in await transaction.fetch(_results(transaction.postgresql), bound_ids(transaction, wanted)):
        if row.status in _ENDED:
            view.outcomes[SessionId(row.session_id)] = row.result == SessionResult.SUCCESS.value


@cache
def _kernels_of(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the kernels of sessions."""
    return _KERNELS.where(KERNELS.c.session_id.in_(sa.select(ids_table(postgresql).c.id)))


@cache
def _results(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the results of sessions by id, and by nothing else.

    With the status in the condition SQLite read every session that has ended.
    """
    wanted = sa.select(ids_table(postgresql).c.id)
    return sa.select(SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.result).where(
        SESSIONS.c.session_id.in_(wanted)
    )
