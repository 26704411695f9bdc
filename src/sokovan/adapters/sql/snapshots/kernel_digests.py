"""Digests of the places of kernels, one text for each large session.

Kernels that start, or run, change their rows and not their place. Reading and converting
thousands of rows in every refresh would delay all other sessions; the database makes the
text much faster, and an equal text says that the workloads are as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from sokovan.adapters.sql.rows import TEXT
from sokovan.adapters.sql.schema.tables import KERNELS
from sokovan.adapters.sql.snapshots.workloads import RELEASING
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS, KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus

# Sessions with a longer spec are large; it names each kernel.
LARGE_BODY = 16_384


class KernelDigest(NamedTuple):
    """All that the workloads of a session's kernels follow from."""

    kernels: str
    failed_starts: str
    is_ending: bool
    spec: int


def is_large(row: Any) -> bool:
    """Whether the session of a row has many kernels."""
    return len(row.body) > LARGE_BODY


async def read_digests(transaction: Transaction, rows: Sequence[Any]) -> dict[str, KernelDigest]:
    """The digests of the large ones among these sessions, by id."""
    large = {row.session_id: row for row in rows if is_large(row)}
    if not large:
        return {}
    found = await transaction.fetch(_digests(transaction.postgresql), bound_ids(transaction, list(large)))
    return {one.session_id: _digest(large[one.session_id], one.kernels) for one in found}


def _digest(row: Any, kernels: str) -> KernelDigest:
    is_ending = row.status == SessionStatus.TERMINATING.value
    return KernelDigest(kernels, row.failed_starts, is_ending, hash(row.body))


@cache
def _digests(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects one text of the kernels of each session: placed on which agent, releasing, waiting or ended."""
    status, agent = KERNELS.c.status, sa.func.coalesce(KERNELS.c.agent_id, "")
    place = sa.case(
        *[(status == one.value, one.value) for one in KernelStatus if one not in HOLDS_SLOTS],
        (status == RELEASING, "-" + agent),
        else_="@" + agent,
    )
    leads = sa.case((KERNELS.c.rank == 0, "*"), else_="")
    each = (
        sa.select(KERNELS.c.session_id, (sa.cast(KERNELS.c.index, TEXT) + leads + place).label("kernel"))
        .where(KERNELS.c.session_id.in_(sa.select(ids_table(postgresql).c.id)))
        .order_by(KERNELS.c.session_id, KERNELS.c.index)
        .subquery()
    )
    text = sa.func.aggregate_strings(each.c.kernel, " ")
    return sa.select(each.c.session_id, text.label("kernels")).group_by(each.c.session_id)
