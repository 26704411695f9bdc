"""Queries of session listings."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_lists import _with_prefix, without_invalid
from sokovan.domain.ids import SessionId
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.dialects import SQLITE
from tests.unit.adapters.sql.statements import recorded_statements


@pytest.mark.parametrize("field", ["scaling_group", "user", "group", "domain", "queue", "name"])
def test_what_is_no_name_fits_nothing(field: str) -> None:
    for text, can_be in (("a\0b", False), ("alice", True)):
        given: dict[str, Any] = {field: text}
        assert (without_invalid(SessionFilter(**given)) is not None) is can_be


def test_ids_that_cannot_be_are_left_out() -> None:
    mixed = without_invalid(SessionFilter(ids=[SessionId("a b"), SessionId("s1")]))
    assert mixed is not None
    assert list(mixed.ids) == ["s1"]
    assert without_invalid(SessionFilter(ids=[SessionId("a b")])) is None


async def test_nothing_is_asked_for_what_cannot_be() -> None:
    async with StoredCluster.open() as cluster:
        with recorded_statements(cluster) as statements:
            assert await cluster.store.read(lambda unit: unit.sessions.named("a b", SessionFilter())) == []
            impossible = SessionFilter(user="\0")
            assert await cluster.store.read(lambda unit: unit.sessions.page(impossible, limit=9)) == []
        assert statements == []


async def test_a_prefix_is_looked_up_in_the_indexes_of_live_sessions() -> None:
    async with StoredCluster.open() as cluster:
        compiled = _with_prefix("s0").compile(dialect=SQLITE, compile_kwargs={"literal_binds": True})
        explained = sa.text(f"EXPLAIN QUERY PLAN {compiled}".replace(":", r"\:"))
        plan = [row.detail for row in await cluster.store.read(lambda unit: unit.transaction.fetch(explained))]
    assert any("USING INDEX ix_sessions_live" in step for step in plan)
    assert any("USING INDEX ix_sessions_name_place" in step for step in plan)


async def test_a_users_own_sessions_are_found_without_looking_at_others() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s1")
        with recorded_statements(cluster) as statements:
            wanted = SessionFilter(user="default")
            await cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=5, newest=True))
        explained = sa.text("EXPLAIN QUERY PLAN " + statements[0].replace("?", "1"))
        plan = [row.detail for row in await cluster.store.read(lambda unit: unit.transaction.fetch(explained))]
    assert plan == ["SEARCH sessions USING INDEX ix_sessions_user_place (user=?)"]
