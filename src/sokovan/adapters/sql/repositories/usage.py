"""Usage counters: the same statements take and free slots, with a sign.

Each update is conditional and its row count is checked. The rows are locked through
their agent, so a short count means that an invariant would be violated, and the
transaction is aborted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.dialects import sqlite

from sokovan.adapters.sql.repositories.past_usage import updated_usage, write_usage
from sokovan.adapters.sql.rows import TEXT, WHOLE, Rows
from sokovan.adapters.sql.schema.tables import AGENT_DEVICES, AGENT_SLOTS, AGENTS, OWNER_USAGE, SESSIONS_SLOT
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.errors import SokovanError
from sokovan.domain.owners.past_usage import UsageChange, UsageKey, UsageScope
from sokovan.domain.owners.policy import Scope
from sokovan.domain.session import SessionType


class LedgerMismatch(SokovanError):
    """The database refused an amount that the locked rows allowed."""

    code = "ledger-mismatch"
    hint = "run `sokovan audit`; nothing of this step was kept"


@dataclass(slots=True)
class UsageDelta:
    """Changes of usage: slots and devices of agents, and totals of owners."""

    slots: Counter[tuple[str, str]] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    devices: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Keyed by the four names of an owner: there are few owners and many kernels.
    _owners: dict[tuple[str, str, str, str], Counter[str]] = field(default_factory=dict)
    _past: dict[tuple[str, str, str, str], Counter[str]] = field(default_factory=dict)
    _lost: dict[tuple[str, str, str, str], Counter[tuple[str, int]]] = field(default_factory=dict)

    def add_kernel(self, agent_id: str, slots: Mapping[str, int], *, sign: int) -> None:
        """Add or remove one kernel on an agent."""
        self.kernels[agent_id] += sign
        for slot, amount in slots.items():
            self.slots[agent_id, slot] += sign * amount

    def add_owner(self, row: Any, amounts: Mapping[str, int], *, sign: int) -> None:
        """Add or subtract amounts for the owner of a session's row.

        One that is not charged counts as past usage only.
        """
        charged = SessionType(row.session_type).is_charged
        key = (row.access_key, row.user, row.group, row.domain)
        owner = self._owners.setdefault(key, Counter()) if charged else Counter()
        past = self._past.setdefault((row.scaling_group, row.user, row.group, row.queue), Counter())
        for slot, amount in amounts.items():
            owner[slot] += sign * amount
            if slot != SESSIONS_SLOT:
                past[slot] += sign * amount

    def owners(self) -> Counter[tuple[str, str, str]]:
        """Amounts by scope, name and slot."""
        counted: Counter[tuple[str, str, str]] = Counter()
        for names, amounts in self._owners.items():
            for scope, name in zip(SCOPES, names, strict=True):
                for slot, amount in amounts.items():
                    counted[scope, name, slot] += amount
        return counted

    def add_lost(self, row: Any, amounts: Mapping[str, int], *, since_ms: int) -> None:
        """Count slots of a session whose work since a time was lost by an eviction."""
        lost = self._lost.setdefault((row.scaling_group, row.user, row.group, row.queue), Counter())
        for slot, amount in amounts.items():
            lost[slot, since_ms] += amount

    def past(self) -> dict[UsageKey, UsageChange]:
        """Changes of past usage by scaling group, scope, name and slot."""
        counted: Counter[UsageKey] = Counter()
        lost: dict[UsageKey, list[tuple[int, int]]] = {}
        for (group, *names), amounts in self._past.items():
            for scope, name in zip(UsageScope, names, strict=True):
                for slot, amount in amounts.items():
                    counted[UsageKey(group, scope, name, slot)] += amount
        for (group, *names), ended in self._lost.items():
            for scope, name in zip(UsageScope, names, strict=True):
                for (slot, since_ms), amount in ended.items():
                    lost.setdefault(UsageKey(group, scope, name, slot), []).append((amount, since_ms))
        changed = [*(key for key, amount in counted.items() if amount), *lost]
        return {key: UsageChange(counted[key], lost=tuple(lost.get(key, ()))) for key in changed}


# In the order of an owner's names: keypair, user, group, domain.
SCOPES = (Scope.KEYPAIR.value, Scope.USER.value, Scope.GROUP.value, Scope.DOMAIN.value)


def scopes_of(row: Any) -> tuple[tuple[str, str], ...]:
    """The four scopes that a session counts against."""
    return tuple(zip(SCOPES, (row.access_key, row.user, row.group, row.domain), strict=True))


async def apply_delta(
    transaction: Transaction, delta: UsageDelta, *, incarnations: Mapping[str, int]
) -> dict[tuple[str, str, str], int]:
    """Write the changes; returns the new usage of owners. Raises LedgerMismatch.

    `incarnations` are those of the agents that get kernels; they must still be ALIVE.
    """
    await _agents(transaction, delta, incarnations)
    slots = [(*key, amount) for key, amount in sorted(delta.slots.items()) if amount]
    await _update_all(transaction, _slots, slots, "slots")
    devices = [(*key, amount) for key, amount in sorted(delta.devices.items()) if amount]
    await _update_all(transaction, _devices, devices, "devices")
    freed = sorted({agent_id for agent_id, _device, amount in devices if amount < 0})
    if freed:
        await transaction.execute(_held_capacity(transaction.postgresql), bound_ids(transaction, freed))
    used = await _owners(transaction, delta)
    await record_usage(transaction, delta.past())
    return used


async def record_usage(transaction: Transaction, changes: Mapping[UsageKey, UsageChange]) -> None:
    """Add to past usage, less what was lost. Raises LedgerMismatch."""
    if changes:
        await _update_all(transaction, write_usage, await updated_usage(transaction, changes), "past usage")


async def _agents(transaction: Transaction, delta: UsageDelta, incarnations: Mapping[str, int]) -> None:
    rows = [(agent_id, count, incarnations.get(agent_id, 0)) for agent_id, count in sorted(delta.kernels.items())]
    await _update_all(transaction, _kernel_counts, rows, "agents", the_stamp=transaction.stamp)


async def _update_all(
    transaction: Transaction, statement: Any, rows: Sequence[tuple[Any, ...]], what: str, **parameters: int
) -> None:
    if not rows:
        return
    update, table = statement(transaction.postgresql)
    written = await transaction.execute(update, {**table.bind(rows), **parameters})
    if written != len(rows):
        raise LedgerMismatch(f"{len(rows) - written} of {len(rows)} {what} refused their amounts, {rows[0]} first")


async def read_owners(
    transaction: Transaction, keys: Sequence[tuple[str, str, str]]
) -> dict[tuple[str, str, str], int]:
    """Current usage of owners; owners without a row are omitted."""
    statement, table = _read_usage(transaction.postgresql)
    found = await transaction.fetch(statement, table.bind(sorted(set(keys))))
    return {(row.scope, row.name, row.slot): row.used for row in found}


async def _lock_owners(transaction: Transaction, keys: Sequence[tuple[str, str, str]]) -> None:
    """Lock rows in key order, because the update that follows has no order."""
    statement, table = _lock_usage(transaction.postgresql)
    await transaction.fetch(statement, table.bind(sorted(set(keys))))


async def _owners(transaction: Transaction, delta: UsageDelta) -> dict[tuple[str, str, str], int]:
    # An inserted row must satisfy the constraint by itself, so decreases are updates and increases are upserts.
    owners = sorted(delta.owners().items())
    less = [(*key, amount) for key, amount in owners if amount < 0]
    if less:
        await _lock_owners(transaction, [(scope, name, slot) for scope, name, slot, _ in less])
        await _update_all(transaction, _less_usage, less, "owners", the_stamp=transaction.stamp)
    more = [(*key, amount) for key, amount in owners if amount > 0]
    if not more:
        return {}
    upsert, table = _more_usage(transaction.postgresql)
    found = await transaction.fetch(upsert, {**table.bind(more), "the_stamp": transaction.stamp})
    return {(row.scope, row.name, row.slot): row.used for row in found}


@cache
def _kernel_counts(postgresql: bool) -> tuple[sa.Update, Rows]:  # noqa: FBT001  # a key of the cache
    rows = Rows("delta", {"id": TEXT, "count": WHOLE, "incarnation": WHOLE}, postgresql=postgresql)
    count = AGENTS.c.kernel_count + rows.c.count
    added = sa.and_(
        AGENTS.c.status == "alive",
        AGENTS.c.incarnation == rows.c.incarnation,
        sa.or_(AGENTS.c.kernels_max.is_(None), count <= AGENTS.c.kernels_max),
    )
    statement = (
        sa.update(AGENTS)
        .values(kernel_count=count, stamp=sa.bindparam("the_stamp", type_=WHOLE))
        .where(AGENTS.c.agent_id == rows.c.id, sa.or_(rows.c.count <= 0, added))
    )
    return statement, rows


@cache
def _slots(postgresql: bool) -> tuple[sa.Update, Rows]:  # noqa: FBT001  # a key of the cache
    rows = Rows("delta", {"id": TEXT, "slot": TEXT, "amount": WHOLE}, postgresql=postgresql)
    used = AGENT_SLOTS.c.used + rows.c.amount
    # A capacity that exceeds the reported one, because it was in use, shrinks as slots are freed.
    shrunk = sa.case((used > AGENT_SLOTS.c.reported, used), else_=AGENT_SLOTS.c.reported)
    statement = (
        sa.update(AGENT_SLOTS)
        .values(used=used, capacity=sa.case((rows.c.amount < 0, shrunk), else_=AGENT_SLOTS.c.capacity))
        .where(
            AGENT_SLOTS.c.agent_id == rows.c.id,
            AGENT_SLOTS.c.slot == rows.c.slot,
            used.between(0, AGENT_SLOTS.c.capacity),
        )
    )
    return statement, rows


@cache
def _devices(postgresql: bool) -> tuple[sa.Update, Rows]:  # noqa: FBT001  # a key of the cache
    rows = Rows("delta", {"id": TEXT, "device": TEXT, "amount": WHOLE}, postgresql=postgresql)
    used = AGENT_DEVICES.c.used + rows.c.amount
    statement = (
        sa.update(AGENT_DEVICES)
        .values(used=used)
        .where(
            AGENT_DEVICES.c.agent_id == rows.c.id,
            AGENT_DEVICES.c.device_id == rows.c.device,
            used.between(0, AGENT_DEVICES.c.units),
        )
    )
    return statement, rows


@cache
def _held_capacity(postgresql: bool) -> sa.Update:  # noqa: FBT001  # a key of the cache
    """Leaves the capacity that kernels hold on absent devices: others free that of present ones."""
    absent = sa.and_(
        AGENT_DEVICES.c.agent_id == AGENT_SLOTS.c.agent_id,
        AGENT_DEVICES.c.slot == AGENT_SLOTS.c.slot,
        sa.not_(AGENT_DEVICES.c.present),
        AGENT_DEVICES.c.used > 0,
    )
    held = sa.select(sa.cast(sa.func.coalesce(sa.func.sum(AGENT_DEVICES.c.used), 0), WHOLE)).where(absent)
    capacity = AGENT_SLOTS.c.reported + held.scalar_subquery()
    wanted = sa.select(ids_table(postgresql).c.id)
    return (
        sa.update(AGENT_SLOTS)
        .values(capacity=capacity)
        .where(AGENT_SLOTS.c.agent_id.in_(wanted), sa.exists().where(absent), AGENT_SLOTS.c.used <= capacity)
    )


_OWNER_KEY = (OWNER_USAGE.c.scope, OWNER_USAGE.c.name, OWNER_USAGE.c.slot)


def _as_keyed(rows: Rows, *, postgresql: bool) -> list[sa.ColumnElement[Any]]:
    """The key columns in the collation of the table, byte by byte."""
    columns = [rows.c.scope, rows.c.name, rows.c.slot]
    return [sa.collate(column, "C") for column in columns] if postgresql else columns


def _of_row(rows: Rows) -> sa.ColumnElement[bool]:
    return sa.and_(*[column == rows.c[column.name] for column in _OWNER_KEY])


@cache
def _read_usage(postgresql: bool) -> tuple[sa.Select[Any], Rows]:  # noqa: FBT001  # a key of the cache
    rows = Rows("wanted", {"scope": TEXT, "name": TEXT, "slot": TEXT}, postgresql=postgresql)
    statement = sa.select(*_OWNER_KEY, OWNER_USAGE.c.used).join(rows.table, _of_row(rows)).order_by(*_OWNER_KEY)
    return statement, rows


@cache
def _lock_usage(postgresql: bool) -> tuple[sa.Select[Any], Rows]:  # noqa: FBT001  # a key of the cache
    statement, rows = _read_usage(postgresql)
    return statement.with_for_update(of=OWNER_USAGE), rows


@cache
def _less_usage(postgresql: bool) -> tuple[sa.Update, Rows]:  # noqa: FBT001  # a key of the cache
    rows = Rows("delta", {"scope": TEXT, "name": TEXT, "slot": TEXT, "amount": WHOLE}, postgresql=postgresql)
    used = OWNER_USAGE.c.used + rows.c.amount
    values = {"used": used, "stamp": sa.bindparam("the_stamp", type_=WHOLE)}
    return sa.update(OWNER_USAGE).values(values).where(_of_row(rows), used >= 0), rows


@cache
def _more_usage(postgresql: bool) -> tuple[Any, Rows]:  # noqa: FBT001  # a key of the cache
    rows = Rows("delta", {"scope": TEXT, "name": TEXT, "slot": TEXT, "amount": WHOLE}, postgresql=postgresql)
    # In key order, so that concurrent transactions lock owners in the same order. The WHERE keeps SQLite's parser from
    # reading ON CONFLICT as a join.
    ordered = (
        sa.select(rows.c.scope, rows.c.name, rows.c.slot, rows.c.amount, sa.bindparam("the_stamp", type_=WHOLE))
        .where(sa.true())
        .order_by(*_as_keyed(rows, postgresql=postgresql))
    )
    insert = (pg.insert if postgresql else sqlite.insert)(OWNER_USAGE)
    filled = insert.from_select(["scope", "name", "slot", "used", "stamp"], ordered)
    statement = filled.on_conflict_do_update(
        index_elements=["scope", "name", "slot"],
        set_={"used": OWNER_USAGE.c.used + filled.excluded.used, "stamp": filled.excluded.stamp},
    ).returning(*_OWNER_KEY, OWNER_USAGE.c.used)
    return statement, rows
