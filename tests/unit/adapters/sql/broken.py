"""Violates invariants of a busy cluster by hand, and audits it."""

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
from tests.quick import sampled


@dataclass(frozen=True, slots=True)
class Break:
    """One way to violate an invariant: the statements, and the reported row."""

    invariant: str
    how: str
    sql: str | tuple[str, ...]
    row: Mapping[str, Any]
    # Other invariants that are violated too.
    also: tuple[str, ...] = field(default=())

    @property
    def statements(self) -> list[str]:
        """The statements, one at a time."""
        texts = [self.sql] if isinstance(self.sql, str) else self.sql
        return [statement for text in texts for statement in text.split(";")]

    def check(self, found: Sequence[AuditFinding]) -> None:
        """Expect that exactly this invariant fails, with the row."""
        by_id = {finding.invariant.id: finding for finding in found}
        failed = [number for number, finding in by_id.items() if not finding.holds]
        assert sorted(failed) == sorted([self.invariant, *self.also]), self.how
        rows = [violation.row for violation in by_id[self.invariant].rows]
        assert any(self.row.items() <= row.items() for row in rows), (self.how, rows)


def each(breaks: Iterable[Break]) -> pytest.MarkDecorator:
    """A test for each violation, named by invariant and way."""
    return pytest.mark.parametrize("broken", sampled(breaks, every=3), ids=lambda one: f"{one.invariant} {one.how}")


def without_constraints(table: str) -> str:
    """Statements that recreate a table with the same rows and without constraints."""
    return f"CREATE TABLE bare AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE bare RENAME TO {table}"  # noqa: S608  # a table of ours


def change(file: Path, *sql: str) -> None:
    """Run statements without constraint checks."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            ";".join(["PRAGMA ignore_check_constraints = ON", "PRAGMA legacy_alter_table = ON", *sql])
        )


@cache
def _store(file: Path) -> SqlStore:
    """One store per file, to reuse its compiled statements."""
    clock = SystemClock()
    return SqlStore(Database(DatabaseSettings(f"sqlite:///{file}"), clock=clock), ids=SortableIds(clock))


async def findings(file: Path) -> Sequence[AuditFinding]:
    """Audit the store in a file."""
    store = _store(file)
    try:
        return await audit(store)
    finally:
        await store.close()


def copied(busy_file: Path) -> Path:
    """A copy to modify, always at the same path."""
    return Path(shutil.copy(busy_file, busy_file.with_name("broken.db")))


async def see(broken: Break, busy_file: Path) -> None:
    """Violate an invariant in a copy, and expect that the auditor finds it."""
    file = copied(busy_file)
    change(file, *broken.statements)
    broken.check(await findings(file))
