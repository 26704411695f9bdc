"""A unit of work gives each of its repositories once, on one transaction."""

from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.testing.contracts.storage import notice
from sokovan.testing.stored_cluster import StoredCluster

NAMES = (
    "sessions",
    "fleet",
    "ledger",
    "catalog",
    "deployments",
    "routes",
    "replicas",
    "rollouts",
    "endpoint_tokens",
    "proxies",
    "audit",
    "verdicts",
    "credentials",
)


async def test_its_repositories_are_made_once_and_work_on_its_transaction() -> None:
    async def work(unit: SqlUnitOfWork) -> None:
        for name in NAMES:
            repository = getattr(unit, name)
            assert repository is getattr(unit, name)
            assert repository._transaction is unit.transaction
        assert unit.now_ms == unit.transaction.now_ms

    async with StoredCluster.open() as cluster:
        await cluster.store.run_sql(work)


async def test_what_it_emits_waits_for_the_end() -> None:
    async def work(unit: SqlUnitOfWork) -> None:
        await unit.emit([notice(1)])
        await unit.emit([notice(2)])
        assert unit.transaction.events == [notice(1), notice(2)]

    async with StoredCluster.open() as cluster:
        await cluster.store.run_sql(work)
