"""Commit ids: the second transaction with one id does not begin."""

from sokovan.adapters.sql.commit_ids import begin
from sokovan.adapters.sql.database import Database
from sokovan.testing.stored_cluster import StoredCluster


async def began(database: Database, commit_id: str, *, committed: bool) -> int | None:
    """The number of a transaction with this id, or None if it did not begin."""
    async with database.writing() as connection:
        transaction = await begin(database, connection, commit_id)
        if committed:
            await connection.commit()
        return None if transaction is None else transaction.number


async def test_a_committed_id_begins_no_second_transaction() -> None:
    async with StoredCluster.open("sqlite://") as cluster:
        database = cluster.store.database
        assert await began(database, "one", committed=True) is not None
        assert await began(database, "one", committed=True) is None


async def test_an_id_that_was_rolled_back_begins_again() -> None:
    async with StoredCluster.open("sqlite://") as cluster:
        database = cluster.store.database
        assert await began(database, "one", committed=False) is not None
        assert await began(database, "one", committed=True) is not None


async def test_numbers_of_transactions_increase() -> None:
    async with StoredCluster.open("sqlite://") as cluster:
        numbers = [await began(cluster.store.database, name, committed=True) for name in ("a", "b", "c")]
        assert numbers == sorted(number for number in numbers if number is not None)
        assert len(set(numbers)) == len(numbers)
