"""New lines of the ledger, written with the allocation that they prove."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import TypeEngine

from sokovan.adapters.sql.repositories.usage import LedgerMismatch
from sokovan.adapters.sql.rows import FLAG, TEXT, WHOLE, Rows
from sokovan.adapters.sql.schema.tables import HELD_DEVICES, HELD_SLOTS
from sokovan.adapters.sql.transaction import Transaction


class LedgerLines:
    """What kernels will hold: slots, and which devices."""

    def __init__(self) -> None:
        self.slots: list[tuple[Any, ...]] = []
        self.devices: list[tuple[Any, ...]] = []

    async def write(self, transaction: Transaction) -> None:
        """Write every line. Raises LedgerMismatch where a device has its one holder."""
        try:
            await self._write(transaction)
        except IntegrityError as error:
            raise LedgerMismatch(f"the ledger does not take these lines: {error.orig}") from error

    async def _write(self, transaction: Transaction) -> None:
        if self.slots:
            statement, rows = _hold_slots(transaction.postgresql)
            await transaction.execute(statement, {**rows.bind(self.slots), "the_held_ms": transaction.now_ms})
        if self.devices:
            statement, rows = _hold_devices(transaction.postgresql)
            await transaction.execute(statement, rows.bind(self.devices))


@cache
def _hold_slots(postgresql: bool) -> tuple[sa.Insert, Rows]:  # noqa: FBT001  # a key of the cache
    columns: dict[str, TypeEngine[Any]] = {
        "kernel_id": TEXT,
        "slot": TEXT,
        "agent_id": TEXT,
        "incarnation": WHOLE,
        "amount": WHOLE,
    }
    rows = Rows("lines", columns, postgresql=postgresql)
    values = [rows.c[name] for name in columns]
    chosen = sa.select(*values, sa.bindparam("the_held_ms", type_=WHOLE))
    return sa.insert(HELD_SLOTS).from_select([*columns, "held_ms"], chosen), rows


@cache
def _hold_devices(postgresql: bool) -> tuple[sa.Insert, Rows]:  # noqa: FBT001  # a key of the cache
    columns: dict[str, TypeEngine[Any]] = {
        "kernel_id": TEXT,
        "device_id": TEXT,
        "agent_id": TEXT,
        "units": WHOLE,
        "exclusive": FLAG,
    }
    rows = Rows("lines", columns, postgresql=postgresql)
    return sa.insert(HELD_DEVICES).from_select(list(columns), sa.select(*[rows.c[name] for name in columns])), rows
