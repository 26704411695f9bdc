"""Held slots over time, from the rows of the ledger, which say when each was taken and freed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_lists import conditions, without_invalid
from sokovan.adapters.sql.schema.tables import HELD_SLOTS, KERNELS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.owners.usage_history import LedgerSum, UsageBy, UsageSeries, UsageWindow, mean_levels
from sokovan.ports.repositories.sessions import SessionFilter

# A name and a slot.
_Key: TypeAlias = tuple[str, str]


async def read_series(
    transaction: Transaction, wanted: SessionFilter, window: UsageWindow, by: UsageBy
) -> list[UsageSeries]:
    """The held slots of matching sessions, by name and slot. See the port."""
    known = without_invalid(wanted)
    if known is None:
        return []
    name = sa.literal("") if by is UsageBy.ALL else SESSIONS.c[by.value]
    held, freed = HELD_SLOTS.c.held_ms, HELD_SLOTS.c.freed_ms
    chosen = conditions(known)
    began = [held < window.from_ms, sa.or_(freed.is_(None), freed >= window.from_ms)]
    levels: dict[_Key, int] = {}
    for row in await transaction.fetch(_summed(name, None, window, [*began, *chosen])):
        levels[row.name, row.slot] = int(row.amount)
    taken = await _steps(transaction, _summed(name, held, window, [*_within(held, window), *chosen]))
    given_back = await _steps(transaction, _summed(name, freed, window, [*_within(freed, window), *chosen]))
    return [
        UsageSeries(*key, mean_levels(window, levels.get(key, 0), taken.get(key, {}), given_back.get(key, {})))
        for key in sorted(levels.keys() | taken.keys())
    ]


def _within(column: sa.ColumnElement[int], window: UsageWindow) -> list[sa.ColumnElement[bool]]:
    return [column >= window.from_ms, column < window.to_ms]


def _summed(
    name: sa.ColumnElement[str],
    at: sa.ColumnElement[int] | None,
    window: UsageWindow,
    where: Sequence[sa.ColumnElement[bool]],
) -> sa.Select[Any]:
    """Sums of amounts by name and slot, and by the step of a time."""
    groups: list[sa.ColumnElement[Any]] = [name.label("name"), HELD_SLOTS.c.slot.label("slot")]
    sums: list[sa.ColumnElement[Any]] = [sa.func.sum(HELD_SLOTS.c.amount).label("amount")]
    if at is not None:
        since = at - window.from_ms
        groups.append((since // window.step_ms).label("step"))
        # A product of bytes and milliseconds exceeds 64 bits.
        sums.append(sa.func.sum(sa.cast(HELD_SLOTS.c.amount, sa.Float) * since).label("moment"))
    joined = HELD_SLOTS.join(KERNELS, KERNELS.c.kernel_id == HELD_SLOTS.c.kernel_id).join(
        SESSIONS, SESSIONS.c.session_id == KERNELS.c.session_id
    )
    places = [sa.literal_column(str(number + 1)) for number in range(len(groups))]
    return sa.select(*groups, *sums).select_from(joined).where(*where).group_by(*places)


async def _steps(transaction: Transaction, statement: sa.Select[Any]) -> dict[_Key, dict[int, LedgerSum]]:
    found: defaultdict[_Key, dict[int, LedgerSum]] = defaultdict(dict)
    for row in await transaction.fetch(statement):
        found[row.name, row.slot][int(row.step)] = LedgerSum(int(row.amount), float(row.moment))
    return found
