"""Verdicts: many in one statement, and only of pending sessions."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.verdicts import is_stale
from sokovan.adapters.sql.schema.tables import VERDICTS
from sokovan.domain.ids import SessionId
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements


def verdicts(*names: str) -> list[StoredVerdict]:
    return [StoredVerdict(SessionId(name), "no-slots", "it waits", "{}") for name in names]


async def test_however_many_verdicts_are_one_statement() -> None:
    async with StoredCluster.open() as cluster:
        names = [f"s{number}" for number in range(20)]
        for name in names:
            await cluster.submit(name)
        for _ in range(2):
            with recorded_statements(cluster) as statements:
                await cluster.store.run(lambda unit: unit.verdicts.put(verdicts(*names)))
            assert len([one for one in statements if "INTO verdicts" in one]) == 1
            assert len(statements) == 2
        with recorded_statements(cluster) as statements:
            await cluster.store.run(lambda unit: unit.verdicts.put([]))
        assert len(statements) == 1


async def test_the_verdicts_of_a_page_are_found_without_reading_other_pending_sessions() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s1")
        await cluster.store.run(lambda unit: unit.verdicts.put(verdicts("s1")))
        with recorded_statements(cluster) as statements:
            assert list(await cluster.store.read(lambda unit: unit.verdicts.of([SessionId("s1")]))) == ["s1"]
        explained = sa.text("EXPLAIN QUERY PLAN " + statements[0].replace("?", "''"))
        plan = [row.detail for row in await cluster.store.read(lambda unit: unit.transaction.fetch(explained))]
    assert any("SEARCH sessions" in step and "(session_id=?)" in step for step in plan), plan


async def test_a_row_of_a_session_that_started_is_left_behind() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("s1", "s2"):
            await cluster.submit(name)
        await cluster.store.run(lambda unit: unit.verdicts.put(verdicts("s1", "s2")))
        await cluster.agent("a1")
        await cluster.place("s1", "a1")
        statement = sa.select(VERDICTS.c.session_id).where(is_stale())
        rows = await cluster.store.read(lambda unit: unit.transaction.fetch(statement))
        assert [row.session_id for row in rows] == ["s1"]
        assert await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("s1"))) is None
