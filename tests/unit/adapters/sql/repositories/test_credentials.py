"""Credentials: one statement for each request of a client, and no digest in an error."""

from __future__ import annotations

import traceback

import pytest

from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.tenancy import Domain, Keypair, User
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements

DIGEST = "5e884898da28047151d0e56f8dc62927"


async def with_keypairs(cluster: StoredCluster) -> None:
    await cluster.put(Domain("d"), User("alice", "d"))
    for name in ("k1", "k2"):
        await cluster.put(Keypair(AccessKey(name), "alice"))
    await cluster.store.run(lambda unit: unit.credentials.put(AccessKey("k1"), DIGEST))


async def test_who_it_is_takes_one_statement() -> None:
    async with StoredCluster.open() as cluster:
        await with_keypairs(cluster)
        with recorded_statements(cluster) as statements:
            found = await cluster.store.read(lambda unit: unit.credentials.find(DIGEST))
        assert found is not None
        assert (found.keypair.access_key, found.user.name) == ("k1", "alice")
        assert len(statements) == 1


async def test_a_digest_that_is_taken_does_not_come_out(migrated_postgres_url: str) -> None:
    for url in ("sqlite://", migrated_postgres_url):
        async with StoredCluster.open(url) as cluster:
            await with_keypairs(cluster)
            with pytest.raises(Conflict) as refused:
                await cluster.store.run(lambda unit: unit.credentials.put(AccessKey("k2"), DIGEST))
            assert DIGEST not in "".join(traceback.format_exception(refused.value))
