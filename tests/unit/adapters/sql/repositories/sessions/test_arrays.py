"""Arrays on SQL; the contract suite has the rest."""

from __future__ import annotations

from sokovan.domain.ids import ArrayId
from sokovan.domain.records import ArrayCounts
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.contracts.repositories.arrays import array
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements


async def test_an_array_without_sessions_has_no_counts() -> None:
    async with StoredCluster.open() as cluster:
        counts = await cluster.store.read(lambda unit: unit.arrays.counts([ArrayId("nothing")]))
    assert counts == {"nothing": ArrayCounts({})}


async def test_invalid_filters_and_names_are_not_looked_up() -> None:
    async with StoredCluster.open() as cluster:
        await array(cluster)
        with recorded_statements(cluster) as statements:
            bad = SessionFilter(user="no name")
            assert not await cluster.store.read(lambda unit: unit.arrays.page(bad, limit=1))
            assert not await cluster.store.read(lambda unit: unit.arrays.named("x", bad))
            assert not await cluster.store.read(lambda unit: unit.arrays.named("\0", SessionFilter()))
    assert not [one for one in statements if "session_arrays" in one]
