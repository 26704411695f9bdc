"""Records the statements that a store sends to its database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from sokovan.testing.stored_cluster import StoredCluster


@contextmanager
def recorded_statements(cluster: StoredCluster) -> Iterator[list[str]]:
    """All statements of the block, without those that begin and end transactions."""
    statements: list[str] = []
    engine = cluster.store.database.engine.sync_engine

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(" ".join(statement.split()))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", note)
