"""Rows with a status, a version and a history, moved by compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import ObjectNotFound, StaleVersion
from sokovan.domain.lifecycle.transition_table import TransitionTable
from sokovan.domain.records import Change


class StatusRows:
    """The rows of one lifecycle; `table` has the object's id as its primary key."""

    def __init__(self, transaction: Transaction, lifecycle: TransitionTable[Any, Any], table: sa.Table) -> None:
        self._transaction, self._lifecycle, self._table = transaction, lifecycle, table
        self._key = next(iter(table.primary_key.columns))

    async def insert(self, object_id: str, values: Mapping[str, Any], change: Change) -> None:
        """Insert a row in the first status. Raises IntegrityError."""
        initial = self._lifecycle.initial.value
        entry = history.HistoryRow(object_id, 1, None, initial, "created")
        first = {self._key.name: object_id, "status": initial, "version": 1, "history_sequence": 1}
        async with self._transaction.savepoint():
            await history.append(self._transaction, self._lifecycle.name, [entry], change)
            await self._transaction.execute(sa.insert(self._table), {**first, **values})

    async def get(self, object_id: str) -> Row[Any]:
        """One row. Raises ObjectNotFound."""
        row = await self._transaction.first(sa.select(self._table).where(self._key == object_id))
        if row is None:
            raise ObjectNotFound(what=self._lifecycle.name, name=object_id)
        return row

    async def move(
        self, object_id: str, expected: tuple[str, int], trigger: Any, change: Change, **values: Any
    ) -> Row[Any]:
        """Move a row that has the expected status and version; `values` are written too.

        Raises ObjectNotFound, StaleVersion, IllegalTransition, ForbiddenCause.
        """
        row = await self._locked(object_id, expected)
        after = self._lifecycle.after(type(self._lifecycle.initial)(row.status), trigger, by=change.by)
        sequence = row.history_sequence + 1
        entry = history.HistoryRow(object_id, sequence, row.status, after.value, trigger.value)
        await history.append(self._transaction, self._lifecycle.name, [entry], change)
        if after.value != row.status and "since_ms" in self._table.c:
            values = {"since_ms": self._transaction.now_ms, **values}
        return await self._write(object_id, row, status=after.value, history_sequence=sequence, **values)

    async def change(self, object_id: str, expected: tuple[str, int], **values: Any) -> Row[Any]:
        """Write columns of a row that has the expected status and version.

        Raises ObjectNotFound, StaleVersion.
        """
        return await self._write(object_id, await self._locked(object_id, expected), **values)

    async def _locked(self, object_id: str, expected: tuple[str, int]) -> Row[Any]:
        row = await self._transaction.first(sa.select(self._table).where(self._key == object_id).with_for_update())
        what = self._lifecycle.name
        if row is None:
            raise ObjectNotFound(what=what, name=object_id)
        if (row.status, row.version) != expected:
            wanted, found = (
                f"{status} (version {version})" for status, version in (expected, (row.status, row.version))
            )
            raise StaleVersion(what=what, name=object_id, expected=wanted, found=found)
        return row

    async def _write(self, object_id: str, row: Row[Any], **values: Any) -> Row[Any]:
        statement = sa.update(self._table).where(self._key == object_id, self._table.c.version == row.version)
        written = await self._transaction.execute(statement.values(version=row.version + 1, **values))
        if written != 1:
            raise StaleVersion(what=self._lifecycle.name, name=object_id, expected=row.version, found="another version")
        return await self.get(object_id)
