"""Contract of `ports.leases.Leases`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from sokovan.ports.leases import Lease
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.clock import until
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import StoredCluster

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
LONG_S = 60.0
SHORT_S = 0.3


async def taken(cluster: StoredCluster, name: str, holder: str = "m1", *, ttl_s: float = LONG_S) -> Lease:
    """Acquire a lease that is free."""
    lease = await cluster.leases.acquire(name, holder=holder, ttl_s=ttl_s)
    if lease is None:
        raise AssertionError(f"{holder} did not get {name}, which is free")
    return lease


async def expired(cluster: StoredCluster, name: str) -> None:
    """Wait until a lease is free."""

    async def is_free() -> bool:
        return await cluster.leases.current(name) is None

    await until(is_free, elapse=cluster.elapse)


async def a_free_lease_is_granted(cluster: StoredCluster) -> None:
    """In the first epoch, for the requested time."""
    name = cluster.new("lease")
    expect(await cluster.leases.current(name) is None, "an unknown lease is held")
    lease = await taken(cluster, name)
    now = await cluster.store.read(_now)
    expect((lease.name, lease.holder, lease.epoch) == (name, "m1", 1), f"the lease is {lease}")
    expect(0 < lease.expires_ms - now <= LONG_S * 1000, "it is not granted for the requested time")
    expect(await cluster.leases.current(name) == lease, "current gives another lease than acquire")


async def _now(unit: UnitOfWork) -> int:
    return unit.now_ms


async def a_lease_has_one_holder(cluster: StoredCluster) -> None:
    """Another caller is refused, and nothing changes."""
    name = cluster.new("lease")
    lease = await taken(cluster, name)
    expect(await cluster.leases.acquire(name, holder="m2", ttl_s=LONG_S) is None, "two hold one lease")
    expect(await cluster.leases.current(name) == lease, "a refused attempt changed the lease")


async def leases_of_different_names_are_independent(cluster: StoredCluster) -> None:
    """Each has its own holder and epoch."""
    first, second = cluster.new("lease"), cluster.new("lease")
    await taken(cluster, first)
    lease = await taken(cluster, second, "m2")
    expect((lease.holder, lease.epoch) == ("m2", 1), f"the lease is {lease}")


async def concurrent_callers_get_a_lease_once(cluster: StoredCluster) -> None:
    """One holder, all others None; for a new lease and for an expired one."""
    name = cluster.new("lease")
    for epoch in (1, 2):
        calls = [cluster.leases.acquire(name, holder=f"m{number}", ttl_s=LONG_S) for number in range(8)]
        granted = [lease for lease in await asyncio.gather(*calls) if lease is not None]
        expect(len(granted) == 1, f"{len(granted)} were granted one lease at once")
        expect(granted[0].epoch == epoch, f"epoch {epoch} is {granted[0].epoch}")
        await cluster.leases.release(granted[0])


async def acquiring_again_extends_the_lease(cluster: StoredCluster) -> None:
    """In the same epoch, and never to an earlier time."""
    name = cluster.new("lease")
    first = await taken(cluster, name)
    longer = await taken(cluster, name, ttl_s=2 * LONG_S)
    expect(longer.epoch == first.epoch, "asking again began a new epoch")
    expect(longer.expires_ms > first.expires_ms, "asking again did not extend")
    shorter = await taken(cluster, name, ttl_s=1)
    expect(shorter.expires_ms >= longer.expires_ms, "asking for less took something back")


async def a_renewal_extends_the_lease(cluster: StoredCluster) -> None:
    """The lease outlives its first time, in the same epoch."""
    lease, renewed = await _renewed(cluster)
    expect((renewed.epoch, renewed.holder) == (lease.epoch, "m1"), f"renewed was {renewed}")
    await cluster.elapse(2 * SHORT_S)
    expect(await cluster.leases.current(lease.name) == renewed, "a renewed lease expired at its first time")


async def _renewed(cluster: StoredCluster) -> tuple[Lease, Lease]:
    """A lease of a short time, and as it is after its renewal for a long one."""
    for _ in range(20):
        lease = await taken(cluster, cluster.new("lease"), ttl_s=SHORT_S)
        renewed = await cluster.leases.renew(lease, ttl_s=LONG_S)
        if renewed is not None:
            return lease, renewed
        # On a busy machine it may have expired before; then it is free.
        expect(await cluster.leases.current(lease.name) is None, "a holder could not renew")
    raise AssertionError("a holder could not renew")


async def an_expired_lease_goes_to_the_next(cluster: StoredCluster) -> None:
    """By the store's time, in a new epoch; the old holder must step down."""
    name = cluster.new("lease")
    old = await taken(cluster, name, ttl_s=SHORT_S)
    await expired(cluster, name)
    new = await taken(cluster, name, "m2")
    expect((new.holder, new.epoch) == ("m2", old.epoch + 1), f"the lease is {new}")
    expect(await cluster.leases.renew(old, ttl_s=LONG_S) is None, "an old holder renewed over the new one")
    expect(await cluster.leases.acquire(name, holder="m1", ttl_s=LONG_S) is None, "an old holder took it back")
    expect(await cluster.leases.current(name) == new, "an old holder changed the lease")


async def acquiring_an_expired_lease_begins_a_new_epoch(cluster: StoredCluster) -> None:
    """Others may have seen it free, so earlier work must not continue."""
    name = cluster.new("lease")
    old = await taken(cluster, name, ttl_s=SHORT_S)
    await expired(cluster, name)
    new = await taken(cluster, name)
    expect(new.epoch == old.epoch + 1, f"epoch {old.epoch} became {new.epoch}")
    expect(await cluster.leases.renew(old, ttl_s=LONG_S) is None, "an earlier epoch was renewed")


async def a_released_lease_is_free_at_once(cluster: StoredCluster) -> None:
    """The next epoch begins."""
    name = cluster.new("lease")
    old = await taken(cluster, name)
    await cluster.leases.release(old)
    expect(await cluster.leases.current(name) is None, "a released lease is held")
    new = await taken(cluster, name, "m2")
    expect(new.epoch == old.epoch + 1, f"epoch {old.epoch} became {new.epoch}")


async def a_late_release_does_nothing(cluster: StoredCluster) -> None:
    """Neither of an earlier epoch, nor twice, nor of an unknown lease."""
    name = cluster.new("lease")
    old = await taken(cluster, name)
    await cluster.leases.release(old)
    new = await taken(cluster, name, "m2")
    await cluster.leases.release(old)
    await cluster.leases.release(Lease(cluster.new("lease"), "m1", 1, 0))
    expect(await cluster.leases.current(name) == new, "a late release removed the lease of its new holder")


async def epochs_only_increase(cluster: StoredCluster) -> None:
    """With every change of holder."""
    name, epochs = cluster.new("lease"), []
    for holder in ("m1", "m2", "m1", "m1", "m3"):
        lease = await taken(cluster, name, holder)
        epochs.append(lease.epoch)
        await cluster.leases.release(lease)
    expect(epochs == [1, 2, 3, 4, 5], f"the epochs were {epochs}")


async def the_fence_is_the_lease_and_its_epoch(cluster: StoredCluster) -> None:
    """It is attached to writes of this leader."""
    lease = await taken(cluster, cluster.new("lease"))
    expect((lease.fence.lease, lease.fence.epoch) == (lease.name, lease.epoch), f"the fence is {lease.fence}")


CHECKS: tuple[Check, ...] = (
    a_free_lease_is_granted,
    a_lease_has_one_holder,
    leases_of_different_names_are_independent,
    concurrent_callers_get_a_lease_once,
    acquiring_again_extends_the_lease,
    a_renewal_extends_the_lease,
    an_expired_lease_goes_to_the_next,
    acquiring_an_expired_lease_begins_a_new_epoch,
    a_released_lease_is_free_at_once,
    a_late_release_does_nothing,
    epochs_only_increase,
    the_fence_is_the_lease_and_its_epoch,
)
