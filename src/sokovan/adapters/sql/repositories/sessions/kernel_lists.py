"""Kernels of sessions in figures, page by page, and what sessions held over time.

Lists of sessions use these: a session may have thousands of kernels.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_lists import conditions, without_invalid
from sokovan.adapters.sql.repositories.sessions.session_rows import INDEX_END, KERNEL_COLUMNS, kernel_record
from sokovan.adapters.sql.repositories.sessions.session_summaries import CHUNK
from sokovan.adapters.sql.rows import TEXT, WHOLE
from sokovan.adapters.sql.schema.tables import AGENT_HISTORY, AGENTS, HELD_SLOTS, KERNELS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.owners.usage_history import (
    AGENTS_ALIVE,
    LedgerSum,
    SessionLevel,
    UsageBy,
    UsageOf,
    UsageSeries,
    UsageWindow,
    mean_levels,
)
from sokovan.domain.records import KernelRecord, KernelSummary
from sokovan.domain.slots import SHARES_PER_DEVICE
from sokovan.ports.repositories.sessions import SessionFilter

# Kernels that are read at a time, and of each session that are counted at once. Others of it are counted in a thread.
COUNTED = 256
# The same for all sessions that are counted together: of fewer sessions more are counted at once.
COUNTED_TOGETHER = 2_048
# A name and a slot.
_Key: TypeAlias = tuple[str, str]


async def read_counts(transaction: Transaction, session_ids: Sequence[SessionId]) -> Mapping[SessionId, KernelSummary]:
    """The figures of all kernels of each session."""
    found: dict[SessionId, KernelSummary] = {}
    for start in range(0, len(session_ids), CHUNK):
        found |= await _read_counts(transaction, session_ids[start : start + CHUNK])
        await asyncio.sleep(0)  # yields, so that a long page does not block the event loop
    return found


async def _read_counts(transaction: Transaction, session_ids: Sequence[SessionId]) -> dict[SessionId, KernelSummary]:
    """The figures of some sessions: first of some kernels of each, then of the others of those that have more."""
    statement, part = _counting(transaction.postgresql), max(COUNTED, COUNTED_TOGETHER // len(session_ids))
    rows = list(await transaction.fetch(statement, {**bound_ids(transaction, session_ids), "first": 0, "end": part}))
    counted: Counter[str] = Counter()
    for row in rows:
        counted[row.session_id] += row.kernels
    large = [one for one in session_ids if counted[one] == part]
    if large:
        bound = {**bound_ids(transaction, large), "first": part, "end": INDEX_END}
        with transaction.off_loop():
            rows += await transaction.fetch(statement, bound)
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(row.session_id, []).append(row)
    return {SessionId(one): _counts(some) for one, some in groups.items()}


def _counts(rows: Sequence[Any]) -> KernelSummary:
    statuses: Counter[KernelStatus] = Counter()
    for row in rows:
        statuses[KernelStatus(row.status)] += row.kernels
    codes = [row.exit_code for row in rows if row.exit_code is not None]
    return KernelSummary(
        statuses=statuses,
        attempt=max(row.attempt for row in rows),
        agents=len({row.agent_id for row in rows if row.agent_id is not None}),
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
def _counting(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Counts kernels by status, exit code and agent, in the order of the first kernel."""
    key, index = KERNELS.c.session_id, KERNELS.c.index
    groups = (key, KERNELS.c.status, KERNELS.c.exit_code, KERNELS.c.agent_id)
    return (
        sa.select(*groups, sa.func.count().label("kernels"), sa.func.max(KERNELS.c.attempt).label("attempt"))
        .where(
            key.in_(sa.select(ids_table(postgresql).c.id)),
            index >= sa.bindparam("first", type_=WHOLE),
            index < sa.bindparam("end", type_=WHOLE),
        )
        .group_by(*groups)
        .order_by(key, sa.func.min(index))
    )


@dataclass(frozen=True, slots=True)
class _Levels:
    """Rows that raise a level at one time and lower it at another."""

    slot: sa.ColumnElement[str]
    amount: sa.ColumnElement[int]
    rows: sa.FromClause
    began: sa.ColumnElement[int]
    ended: sa.ColumnElement[int]


_HELD = _Levels(
    slot=HELD_SLOTS.c.slot,
    amount=HELD_SLOTS.c.amount,
    rows=HELD_SLOTS.join(KERNELS, KERNELS.c.kernel_id == HELD_SLOTS.c.kernel_id).join(
        SESSIONS, SESSIONS.c.session_id == KERNELS.c.session_id
    ),
    began=HELD_SLOTS.c.held_ms,
    ended=HELD_SLOTS.c.freed_ms,
)
# One that waits to be started again keeps the time of its start.
_STARTED = sa.case((SESSIONS.c.status == "pending", sa.null()), else_=SESSIONS.c.scheduled_ms)
_ONE = sa.literal_column("1", WHOLE)


def _levels_of(amount: sa.ColumnElement[int]) -> tuple[_Levels, _Levels]:
    """The sums over sessions that run, and over those that wait."""
    ended = SESSIONS.c.ended_ms
    running, waiting = (sa.literal(level.value, TEXT) for level in (SessionLevel.RUNNING, SessionLevel.WAITING))
    waited = sa.func.coalesce(_STARTED, ended)
    return (
        _Levels(running, amount, SESSIONS, _STARTED, ended),
        _Levels(waiting, amount, SESSIONS, SESSIONS.c.submitted_ms, waited),
    )


_SOURCES = {
    UsageOf.SLOTS: (_HELD,),
    UsageOf.SESSIONS: _levels_of(_ONE),
    UsageOf.GPUS: _levels_of(SESSIONS.c.devices),
}


async def read_series(
    transaction: Transaction, wanted: SessionFilter, window: UsageWindow, by: UsageBy, *, of: UsageOf
) -> list[UsageSeries]:
    """Levels of matching sessions over time, by name and slot. See the port."""
    known = without_invalid(wanted)
    if known is None:
        return []
    if of is UsageOf.AGENTS:
        return await _agents_over_time(transaction, known.scaling_group, window)
    name = sa.literal("") if by is UsageBy.ALL else SESSIONS.c[by.value]
    found: list[UsageSeries] = []
    asking = [SESSIONS.c.devices > 0] if of is UsageOf.GPUS else []
    for source in _SOURCES[of]:
        found += await _read_levels(transaction, source, window, [*conditions(known), *asking], name=name)
    return [_whole_devices(one) for one in found] if of is UsageOf.GPUS else found


async def _agents_over_time(transaction: Transaction, scaling_group: str, window: UsageWindow) -> list[UsageSeries]:
    """How many agents took kernels, from how many do now and from what has changed since."""
    alive, now, at = AgentStatus.ALIVE.value, AGENTS.c.status, AGENT_HISTORY.c.at_ms
    rows = AGENT_HISTORY.join(AGENTS, AGENTS.c.agent_id == AGENT_HISTORY.c.object_id)
    source = _Levels(sa.literal(AGENTS_ALIVE, TEXT), _ONE, rows, at, at)
    inside = [AGENTS.c.scaling_group == scaling_group] if scaling_group else []
    changed = AGENT_HISTORY.c.before.is_distinct_from(AGENT_HISTORY.c.after)
    came = [AGENT_HISTORY.c.after == alive, changed, *inside]
    went = [AGENT_HISTORY.c.before == alive, changed, *inside]

    async def count(chosen: Sequence[sa.ColumnElement[bool]], of: sa.FromClause) -> int:
        [row] = await transaction.fetch(sa.select(sa.func.count().label("agents")).select_from(of).where(*chosen))
        return int(row.agents)

    since = at >= window.from_ms
    level = await count([now == alive, *inside], AGENTS)
    level += await count([since, *went], rows) - await count([since, *came], rows)
    key, steps = ("", AGENTS_ALIVE), []
    for chosen in (came, went):
        summed = _summed(source, at, window, [*_within(at, window), *chosen], name=sa.literal(""))
        steps.append((await _steps(transaction, summed)).get(key, {}))
    return [UsageSeries(*key, mean_levels(window, level, *steps))]


def _whole_devices(series: UsageSeries) -> UsageSeries:
    return replace(series, used=tuple(round(value / SHARES_PER_DEVICE) for value in series.used))


async def _read_levels(
    transaction: Transaction,
    source: _Levels,
    window: UsageWindow,
    chosen: Sequence[sa.ColumnElement[bool]],
    *,
    name: sa.ColumnElement[str],
) -> list[UsageSeries]:
    began, ended = source.began, source.ended
    before = [began < window.from_ms, sa.or_(ended.is_(None), ended >= window.from_ms)]
    levels: dict[_Key, int] = {}
    for row in await transaction.fetch(_summed(source, None, window, [*before, *chosen], name=name)):
        levels[row.name, row.slot] = int(row.amount)
    taken = await _steps(transaction, _summed(source, began, window, [*_within(began, window), *chosen], name=name))
    given_back = await _steps(
        transaction, _summed(source, ended, window, [*_within(ended, window), *chosen], name=name)
    )
    return [
        UsageSeries(*key, mean_levels(window, levels.get(key, 0), taken.get(key, {}), given_back.get(key, {})))
        for key in sorted(levels.keys() | taken.keys())
    ]


def _within(column: sa.ColumnElement[int], window: UsageWindow) -> list[sa.ColumnElement[bool]]:
    return [column >= window.from_ms, column < window.to_ms]


def _summed(
    source: _Levels,
    at: sa.ColumnElement[int] | None,
    window: UsageWindow,
    where: Sequence[sa.ColumnElement[bool]],
    *,
    name: sa.ColumnElement[str],
) -> sa.Select[Any]:
    """Sums of amounts by name and slot, and by the step of a time."""
    groups: list[sa.ColumnElement[Any]] = [name.label("name"), source.slot.label("slot")]
    sums: list[sa.ColumnElement[Any]] = [sa.func.sum(source.amount).label("amount")]
    if at is not None:
        since = at - window.from_ms
        groups.append((since // window.step_ms).label("step"))
        # A product of bytes and milliseconds exceeds 64 bits.
        sums.append(sa.func.sum(sa.cast(source.amount, sa.Float) * since).label("moment"))
    places: list[sa.ColumnElement[Any]] = [sa.literal_column(str(number + 1)) for number in range(len(groups))]
    return sa.select(*groups, *sums).select_from(source.rows).where(*where).group_by(*places)


async def _steps(transaction: Transaction, statement: sa.Select[Any]) -> dict[_Key, dict[int, LedgerSum]]:
    found: defaultdict[_Key, dict[int, LedgerSum]] = defaultdict(dict)
    for row in await transaction.fetch(statement):
        found[row.name, row.slot][int(row.step)] = LedgerSum(int(row.amount), float(row.moment))
    return found
