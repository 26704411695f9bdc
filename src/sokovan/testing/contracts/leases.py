"""The promises of `ports.leases.Leases`."""

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
    """A lease that must be given."""
    lease = await cluster.leases.acquire(name, holder=holder, ttl_s=ttl_s)
    if lease is None:
        raise AssertionError(f"{holder} was not given {name}, which is free")
    return lease


async def expired(cluster: StoredCluster, name: str) -> None:
    """Wait until nobody holds a lease."""

    async def is_free() -> bool:
        return await cluster.leases.current(name) is None

    await until(is_free, elapse=cluster.elapse)


async def a_free_lease_is_given(cluster: StoredCluster) -> None:
    """To the one who asks, in the first epoch, for the time asked for."""
    name = cluster.new("lease")
    expect(await cluster.leases.current(name) is None, "a lease that nobody took is held")
    lease = await taken(cluster, name)
    now = await cluster.store.read(_now)
    expect((lease.name, lease.holder, lease.epoch) == (name, "m1", 1), f"given was {lease}")
    expect(0 < lease.expires_ms - now <= LONG_S * 1000, "it is not given for the time asked for")
    expect(await cluster.leases.current(name) == lease, "current gives another lease than acquire")


async def _now(unit: UnitOfWork) -> int:
    return unit.now_ms


async def a_lease_has_one_holder(cluster: StoredCluster) -> None:
    """Another is refused, and changes nothing."""
    name = cluster.new("lease")
    lease = await taken(cluster, name)
    expect(await cluster.leases.acquire(name, holder="m2", ttl_s=LONG_S) is None, "two hold one lease")
    expect(await cluster.leases.current(name) == lease, "a refused attempt changed the lease")


async def leases_of_other_names_do_not_meet(cluster: StoredCluster) -> None:
    """Each has its own holder and epoch."""
    first, second = cluster.new("lease"), cluster.new("lease")
    await taken(cluster, first)
    lease = await taken(cluster, second, "m2")
    expect((lease.holder, lease.epoch) == ("m2", 1), f"given was {lease}")


async def who_asks_at_once_gets_it_once(cluster: StoredCluster) -> None:
    """One holder, all others None; for a new lease and for an expired one."""
    name = cluster.new("lease")
    for epoch in (1, 2):
        asked = [cluster.leases.acquire(name, holder=f"m{number}", ttl_s=LONG_S) for number in range(8)]
        given = [lease for lease in await asyncio.gather(*asked) if lease is not None]
        expect(len(given) == 1, f"{len(given)} were given one lease at once")
        expect(given[0].epoch == epoch, f"epoch {epoch} is {given[0].epoch}")
        await cluster.leases.release(given[0])


async def the_holder_that_asks_again_extends(cluster: StoredCluster) -> None:
    """In the same epoch, for longer; never for shorter."""
    name = cluster.new("lease")
    first = await taken(cluster, name)
    longer = await taken(cluster, name, ttl_s=2 * LONG_S)
    expect(longer.epoch == first.epoch, "asking again began a new epoch")
    expect(longer.expires_ms > first.expires_ms, "asking again did not extend")
    shorter = await taken(cluster, name, ttl_s=1)
    expect(shorter.expires_ms >= longer.expires_ms, "asking for less took something back")


async def a_renewal_extends(cluster: StoredCluster) -> None:
    """The lease lives past its first time, in the same epoch."""
    name = cluster.new("lease")
    lease = await taken(cluster, name, ttl_s=SHORT_S)
    renewed = await cluster.leases.renew(lease, ttl_s=LONG_S)
    if renewed is None:
        raise AssertionError("a holder could not renew")
    expect((renewed.epoch, renewed.holder) == (lease.epoch, "m1"), f"renewed was {renewed}")
    await cluster.elapse(2 * SHORT_S)
    expect(await cluster.leases.current(name) == renewed, "a renewed lease expired at its first time")


async def an_expired_lease_goes_to_the_next(cluster: StoredCluster) -> None:
    """By the store's time, in a new epoch; the old holder must step down."""
    name = cluster.new("lease")
    old = await taken(cluster, name, ttl_s=SHORT_S)
    await expired(cluster, name)
    new = await taken(cluster, name, "m2")
    expect((new.holder, new.epoch) == ("m2", old.epoch + 1), f"given was {new}")
    expect(await cluster.leases.renew(old, ttl_s=LONG_S) is None, "an old holder renewed over the new one")
    expect(await cluster.leases.acquire(name, holder="m1", ttl_s=LONG_S) is None, "an old holder took it back")
    expect(await cluster.leases.current(name) == new, "an old holder changed the lease")


async def who_takes_an_expired_lease_again_begins_a_new_epoch(cluster: StoredCluster) -> None:
    """Somebody may have seen it free, so what was begun before must not go on."""
    name = cluster.new("lease")
    old = await taken(cluster, name, ttl_s=SHORT_S)
    await expired(cluster, name)
    new = await taken(cluster, name)
    expect(new.epoch == old.epoch + 1, f"epoch {old.epoch} became {new.epoch}")
    expect(await cluster.leases.renew(old, ttl_s=LONG_S) is None, "an earlier epoch was renewed")


async def a_released_lease_is_free_at_once(cluster: StoredCluster) -> None:
    """And the next epoch begins."""
    name = cluster.new("lease")
    old = await taken(cluster, name)
    await cluster.leases.release(old)
    expect(await cluster.leases.current(name) is None, "a released lease is held")
    new = await taken(cluster, name, "m2")
    expect(new.epoch == old.epoch + 1, f"epoch {old.epoch} became {new.epoch}")


async def a_late_release_does_nothing(cluster: StoredCluster) -> None:
    """Neither of an earlier epoch, nor twice, nor of a lease that never was."""
    name = cluster.new("lease")
    old = await taken(cluster, name)
    await cluster.leases.release(old)
    new = await taken(cluster, name, "m2")
    await cluster.leases.release(old)
    await cluster.leases.release(Lease(cluster.new("lease"), "m1", 1, 0))
    expect(await cluster.leases.current(name) == new, "a late release took the lease from its new holder")


async def epochs_only_rise(cluster: StoredCluster) -> None:
    """With every change of holder, whoever it is."""
    name, epochs = cluster.new("lease"), []
    for holder in ("m1", "m2", "m1", "m1", "m3"):
        lease = await taken(cluster, name, holder)
        epochs.append(lease.epoch)
        await cluster.leases.release(lease)
    expect(epochs == [1, 2, 3, 4, 5], f"the epochs were {epochs}")


async def the_fence_is_the_lease_and_its_epoch(cluster: StoredCluster) -> None:
    """What a write of this leader carries."""
    lease = await taken(cluster, cluster.new("lease"))
    expect((lease.fence.lease, lease.fence.epoch) == (lease.name, lease.epoch), f"the fence is {lease.fence}")


CHECKS: tuple[Check, ...] = (
    a_free_lease_is_given,
    a_lease_has_one_holder,
    leases_of_other_names_do_not_meet,
    who_asks_at_once_gets_it_once,
    the_holder_that_asks_again_extends,
    a_renewal_extends,
    an_expired_lease_goes_to_the_next,
    who_takes_an_expired_lease_again_begins_a_new_epoch,
    a_released_lease_is_free_at_once,
    a_late_release_does_nothing,
    epochs_only_rise,
    the_fence_is_the_lease_and_its_epoch,
)
