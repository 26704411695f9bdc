"""Rows of the ledger that tests read and write past its port."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.adapters.sql.repositories.ledger import read_held_slots
from sokovan.adapters.sql.repositories.usage import record_usage
from sokovan.adapters.sql.schema.tables import HELD_SLOTS
from sokovan.adapters.sql.store import SqlStore
from sokovan.domain.owners.past_usage import UsageChange, UsageKey
from sokovan.domain.records import HeldSlot


async def ledger_rows(store: SqlStore, kernel_id: str) -> Sequence[HeldSlot]:
    """Every row of a kernel, freed ones too."""
    return await store.read(lambda unit: read_held_slots(unit.transaction, HELD_SLOTS.c.kernel_id == kernel_id))


async def add_past_usage(store: SqlStore, key: UsageKey, amount: int) -> None:
    """Add an amount to past usage; a negative one takes at most what is left."""
    await store.run_sql(lambda unit: record_usage(unit.transaction, {key: UsageChange(added=amount)}))
