"""Kernels of sessions in figures, and page by page.

Lists of sessions use these: a session may have thousands of kernels.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_rows import KERNEL_COLUMNS, kernel_record
from sokovan.adapters.sql.repositories.sessions.session_summaries import CHUNK
from sokovan.adapters.sql.rows import WHOLE
from sokovan.adapters.sql.schema.tables import KERNELS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.records import KernelRecord, KernelSummary

# Kernels of each session that are read before other tasks run.
COUNTED = 256


async def read_counts(transaction: Transaction, session_ids: Sequence[SessionId]) -> Mapping[SessionId, KernelSummary]:
    """The figures of all kernels of each session."""
    found: dict[SessionId, KernelSummary] = {}
    for start in range(0, len(session_ids), CHUNK):
        found |= await _read_counts(transaction, session_ids[start : start + CHUNK])
    return found


async def _read_counts(transaction: Transaction, session_ids: Sequence[SessionId]) -> dict[SessionId, KernelSummary]:
    """The figures of some sessions, counted part by part: other tasks run between."""
    counts, agents = _statements(transaction.postgresql)
    groups: dict[str, list[Any]] = {}
    used: dict[str, set[str]] = {}
    left, first = session_ids, 0
    while left:
        bound = {**bound_ids(transaction, left), "first": first, "end": first + COUNTED}
        counted: Counter[str] = Counter()
        for row in await transaction.fetch(counts, bound):
            groups.setdefault(row.session_id, []).append(row)
            counted[row.session_id] += row.kernels
        for row in await transaction.fetch(agents, bound):
            used.setdefault(row.session_id, set()).add(row.agent_id)
        left, first = [one for one in left if counted[one] == COUNTED], first + COUNTED
        await asyncio.sleep(0)  # yields, so that a long page does not block the event loop
    return {SessionId(one): _counts(rows, len(used.get(one, ()))) for one, rows in groups.items()}


def _counts(rows: Sequence[Any], agents: int) -> KernelSummary:
    statuses: Counter[KernelStatus] = Counter()
    for row in rows:
        statuses[KernelStatus(row.status)] += row.kernels
    codes = [row.exit_code for row in rows if row.exit_code is not None]
    return KernelSummary(
        statuses=statuses,
        attempt=max(row.attempt for row in rows),
        agents=agents,
        exited=sum(row.kernels for row in rows if row.exit_code is not None),
        exit_codes=tuple(dict.fromkeys(codes)),
    )


async def read_page(
    transaction: Transaction, session_id: SessionId, *, limit: int, after: int
) -> Sequence[KernelRecord]:
    """A page of the kernels of a session, in their order."""
    found: list[KernelRecord] = []
    while len(found) < limit:
        count = min(COUNTED, limit - len(found))
        bound = {"of": session_id, "after": found[-1].index if found else after, "count": count}
        rows = await transaction.fetch(_PAGE, bound)
        found += [kernel_record(row) for row in rows]
        if len(rows) < count:
            break
        await asyncio.sleep(0)  # yields, so that a long page does not block the event loop
    return found


_PAGE = (
    sa.select(*KERNEL_COLUMNS)
    .where(
        KERNELS.c.session_id == sa.bindparam("of", type_=sa.Text), KERNELS.c.index > sa.bindparam("after", type_=WHOLE)
    )
    .order_by(KERNELS.c.index)
    .limit(sa.bindparam("count", type_=WHOLE))
)


@cache
def _statements(postgresql: bool) -> tuple[sa.Select[Any], sa.Select[Any]]:  # noqa: FBT001  # a key of the cache
    """Counts by status and exit code, in the order of the first kernel; and the agents."""
    key, index = KERNELS.c.session_id, KERNELS.c.index
    wanted = sa.and_(
        key.in_(sa.select(ids_table(postgresql).c.id)),
        index >= sa.bindparam("first", type_=WHOLE),
        index < sa.bindparam("end", type_=WHOLE),
    )
    counts = (
        sa.select(
            key,
            KERNELS.c.status,
            KERNELS.c.exit_code,
            sa.func.count().label("kernels"),
            sa.func.max(KERNELS.c.attempt).label("attempt"),
        )
        .where(wanted)
        .group_by(key, KERNELS.c.status, KERNELS.c.exit_code)
        .order_by(key, sa.func.min(KERNELS.c.index))
    )
    agents = sa.select(key, KERNELS.c.agent_id).where(wanted, KERNELS.c.agent_id.is_not(None)).distinct()
    return counts, agents
