"""Breaking a busy cluster by hand, and asking what the laws say of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.invariants.auditor import AuditFinding, audit
from sokovan.adapters.sql.store import SqlStore


@dataclass(frozen=True, slots=True)
class Break:
    """One way to break one law: what is done, and what the offending row must say."""

    law: str
    how: str
    sql: str | tuple[str, ...]
    row: Mapping[str, Any]
    # Laws that say the same thing in other words, and so cannot hold either.
    also: tuple[str, ...] = field(default=())

    @property
    def statements(self) -> list[str]:
        """What is done, one statement at a time."""
        texts = [self.sql] if isinstance(self.sql, str) else self.sql
        return [statement for text in texts for statement in text.split(";")]

    def check(self, found: Sequence[AuditFinding]) -> None:
        """Exactly this law must fail, and name the row."""
        by_law = {finding.invariant.id: finding for finding in found}
        failed = [law for law, finding in by_law.items() if not finding.holds]
        assert sorted(failed) == sorted([self.law, *self.also]), self.how
        rows = [offence.row for offence in by_law[self.law].rows]
        assert any(self.row.items() <= row.items() for row in rows), (self.how, rows)


def each(breaks: Iterable[Break]) -> pytest.MarkDecorator:
    """A test for every way to break a law, named by law and way."""
    return pytest.mark.parametrize("broken", breaks, ids=lambda one: f"{one.law} {one.how}")


def without_constraints(table: str) -> str:
    """Statements that make a table anew, with the same rows and none of its constraints."""
    return f"CREATE TABLE bare AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE bare RENAME TO {table}"  # noqa: S608  # a table of ours


def change(file: Path, *sql: str) -> None:
    """Run statements that no constraint holds back."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            ";".join(["PRAGMA ignore_check_constraints = ON", "PRAGMA legacy_alter_table = ON", *sql])
        )


@cache
def _store(file: Path) -> SqlStore:
    """One store per file, however often the file changes: it keeps the statements that it has compiled."""
    clock = SystemClock()
    return SqlStore(Database(DatabaseSettings(f"sqlite:///{file}"), clock=clock), ids=SortableIds(clock))


async def findings(file: Path) -> Sequence[AuditFinding]:
    """What the laws say of the store in a file."""
    store = _store(file)
    try:
        return await audit(store)
    finally:
        await store.close()


def copied(busy_file: Path) -> Path:
    """A copy to break, always in the same place."""
    return Path(shutil.copy(busy_file, busy_file.with_name("broken.db")))


async def see(broken: Break, busy_file: Path) -> None:
    """Break a copy, and see that the auditor finds it."""
    file = copied(busy_file)
    change(file, *broken.statements)
    broken.check(await findings(file))
