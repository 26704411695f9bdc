"""Rows of the ledger for tests."""

from __future__ import annotations

from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.owners.past_usage import UsageKey, UsageScope
from sokovan.testing.ledger_rows import add_past_usage, ledger_rows
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster


async def test_the_rows_of_a_kernel_include_freed_ones() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a")
        await cluster.submit("s", slots={"cpu": 1000})
        await cluster.place("s", "a")
        assert [row.proof for row in await ledger_rows(cluster.store, "s.0")] == [None]
        await cluster.stop("s")
        await cluster.free("s", FreeProof.NEVER_SENT)
        assert [row.proof for row in await ledger_rows(cluster.store, "s.0")] == [FreeProof.NEVER_SENT]


async def test_past_usage_can_be_given_to_an_owner() -> None:
    async with StoredCluster.open() as cluster:
        await add_past_usage(cluster.store, UsageKey(DEFAULT_GROUP, UsageScope.USER, "ada", "cpu"), 5000)
        [row] = await cluster.store.read(lambda unit: unit.ledger.past_usage())
        assert (row.key.name, row.amount) == ("ada", 5000)
