"""Leases by the store's time, and the terms that are kept of them."""

import sqlalchemy as sa

from sokovan.adapters.sql.leases import SqlLeases
from sokovan.adapters.sql.schema.tables import LEASE_TERMS
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.leases import taken
from sokovan.testing.stored_cluster import StoredCluster


async def test_every_term_is_kept_with_its_holder() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        for holder in ("m1", "m2"):
            lease = await taken(cluster, "scheduler", holder)
            await taken(cluster, "scheduler", holder)
            await clock.advance(2)
            await cluster.leases.release(lease)
        rows = await cluster.store.read(lambda unit: unit.transaction.fetch(sa.select(LEASE_TERMS)))
        assert [(row.epoch, row.holder) for row in rows] == [(1, "m1"), (2, "m2")]
        assert rows[1].since_ms == rows[0].since_ms + 2_000


async def test_the_clock_of_a_process_does_not_matter_where_the_store_has_its_own(migrated_postgres_url: str) -> None:
    """One process lives in 1970, another in the far future; both lead by the time of the store."""
    past, future = VirtualClock(now_ms=0), VirtualClock(now_ms=9_000_000_000_000)
    async with (
        StoredCluster.open(migrated_postgres_url, clock=past) as early,
        StoredCluster.open(migrated_postgres_url, clock=future) as late,
    ):
        lease = await taken(early, "scheduler", "early")
        assert await late.leases.acquire("scheduler", holder="late", ttl_s=60) is None
        assert await late.leases.current("scheduler") == lease
        await early.leases.release(lease)
        assert (await taken(late, "scheduler", "late")).epoch == 2


async def test_a_lease_ends_to_the_millisecond() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await taken(cluster, "scheduler", ttl_s=1)
        await clock.advance(0.999)
        assert await cluster.leases.current("scheduler") is not None
        assert await cluster.leases.acquire("scheduler", holder="m2", ttl_s=1) is None
        await clock.advance(0.001)
        assert await cluster.leases.current("scheduler") is None
        assert (await taken(cluster, "scheduler", "m2")).epoch == 2


async def test_a_holder_may_renew_an_expired_lease_that_is_free() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        lease = await taken(cluster, "scheduler", ttl_s=1)
        await clock.advance(10)
        renewed = await cluster.leases.renew(lease, ttl_s=1)
        assert renewed is not None
        assert renewed.epoch == 1


async def test_the_sole_process_of_a_store_takes_the_lease_of_one_that_ended_at_once() -> None:
    """A killed server leaves a lease; with the clock set back it lies far in the future."""
    clock = VirtualClock(now_ms=9_000_000_000_000)
    async with StoredCluster.open(clock=clock) as cluster:
        left = await taken(cluster, "scheduler", "killed", ttl_s=3600)
        assert await cluster.leases.acquire("scheduler", holder="next", ttl_s=10) is None
        sole = SqlLeases(cluster.store, sole=True)
        lease = await sole.acquire("scheduler", holder="next", ttl_s=10)
        assert lease is not None
        assert (lease.holder, lease.epoch) == ("next", left.epoch + 1)
        assert lease.expires_ms < left.expires_ms
        assert await sole.renew(left, ttl_s=10) is None
        again = await sole.acquire("scheduler", holder="next", ttl_s=10)
        assert again is not None
        assert again.epoch == lease.epoch
