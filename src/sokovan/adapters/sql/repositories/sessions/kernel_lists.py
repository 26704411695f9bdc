"""Kernels of sessions in figures, and page by page.

Lists of sessions use these: a session may have thousands of kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_rows import KERNEL_COLUMNS, kernel_record
from sokovan.adapters.sql.schema.tables import KERNELS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.records import KernelRecord, KernelSummary


async def read_counts(transaction: Transaction, session_ids: Sequence[SessionId]) -> Mapping[SessionId, KernelSummary]:
    """The figures of all kernels of each session."""
    counts, agents = _statements(transaction.postgresql)
    bound = bound_ids(transaction, list(session_ids))
    used = {row.session_id: row.agents for row in await transaction.fetch(agents, bound)}
    groups: dict[str, list[Any]] = {}
    for row in await transaction.fetch(counts, bound):
        groups.setdefault(row.session_id, []).append(row)
    return {SessionId(one): _counts(rows, used.get(one, 0)) for one, rows in groups.items()}


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
    statement = (
        sa.select(*KERNEL_COLUMNS)
        .where(KERNELS.c.session_id == session_id, KERNELS.c.index > after)
        .order_by(KERNELS.c.index)
        .limit(limit)
    )
    return [kernel_record(row) for row in await transaction.fetch(statement)]


@cache
def _statements(postgresql: bool) -> tuple[sa.Select[Any], sa.Select[Any]]:  # noqa: FBT001  # a key of the cache
    """Counts by status and exit code, in the order of the first kernel; numbers of agents."""
    key, wanted = KERNELS.c.session_id, KERNELS.c.session_id.in_(sa.select(ids_table(postgresql).c.id))
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
    agents = sa.select(key, sa.func.count(KERNELS.c.agent_id.distinct()).label("agents")).where(wanted).group_by(key)
    return counts, agents
