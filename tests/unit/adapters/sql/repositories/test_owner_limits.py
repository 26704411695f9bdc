"""Limits, read again only when they were written."""

from sokovan.adapters.sql.repositories.owner_limits import OwnerLimitCache, OwnerLimits, policies_by_owner
from sokovan.adapters.sql.schema.tables import SESSIONS_SLOT
from sokovan.domain.cluster.image import Image
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, User
from sokovan.domain.slots import SlotLimits
from sokovan.testing.stored_cluster import StoredCluster

POLICY = ResourcePolicy("p", slots_max=SlotLimits({"cpu": 0, "mem": 7}), sessions_max=3)


async def current(cluster: StoredCluster, limits: OwnerLimitCache) -> OwnerLimits:
    return await cluster.store.read(lambda unit: limits.current(unit.transaction))


async def owners(cluster: StoredCluster) -> None:
    await cluster.put(POLICY, ResourcePolicy("empty", priority_max=1))
    await cluster.put(Domain("d", "p"), Group("g", "d", "p"), User("u", "d", (), "p"), User("v", "d", (), "empty"))
    await cluster.put(Keypair(AccessKey("k"), "u", "p"), Keypair(AccessKey("free"), "u"))


async def test_every_scope_has_its_slots_and_sessions() -> None:
    async with StoredCluster.open() as cluster:
        await owners(cluster)
        limits = {"cpu": 0, "mem": 7, SESSIONS_SLOT: 3}
        assert await current(cluster, OwnerLimitCache()) == {
            ("domain", "d"): limits,
            ("group", "g"): limits,
            ("user", "u"): limits,
            ("keypair", "k"): limits,
        }


async def test_they_are_read_again_when_an_owner_or_a_policy_was_written() -> None:
    async with StoredCluster.open() as cluster:
        await owners(cluster)
        limits = OwnerLimitCache()
        first = await current(cluster, limits)
        assert await current(cluster, limits) is first
        await cluster.put(Image("python"))
        assert await current(cluster, limits) is first
        await cluster.put(ResourcePolicy("p", slots_max=SlotLimits({"cpu": 9})))
        assert (await current(cluster, limits))["user", "u"] == {"cpu": 9}
        await cluster.put(User("u", "d"))
        assert ("user", "u") not in await current(cluster, limits)
        await cluster.store.run(lambda unit: unit.catalog.remove(Keypair, "k"))
        assert ("keypair", "k") not in await current(cluster, limits)


async def test_the_policies_of_owners_are_whole() -> None:
    async with StoredCluster.open() as cluster:
        await owners(cluster)
        found = await cluster.store.read(lambda unit: policies_by_owner(unit.transaction))
        assert found[Scope.KEYPAIR] == {"k": POLICY}
        assert found[Scope.USER] == {"u": POLICY, "v": ResourcePolicy("empty", priority_max=1)}
