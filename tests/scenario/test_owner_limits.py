"""Limits on the sessions of owners, through the store: each scope is enforced and named."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AccessKey, ScalingGroupName, SessionId
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, User
from sokovan.ports.repositories.catalog import CatalogItem
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster

OTHER_GROUP = ScalingGroupName("other")
ALICE = Owner("alice", "lab", "faculty", AccessKey("key-1"))
ALICE_TOO = Owner("alice", "lab", "faculty", AccessKey("key-2"))
NAMES = {"keypair": "key-1", "user": "alice", "group": "lab", "domain": "faculty"}
OWNERS: dict[str, CatalogItem] = {
    "keypair": Keypair(ALICE.access_key, "alice", policy="small"),
    "user": User("alice", "faculty", policy="small"),
    "group": Group("lab", "faculty", policy="small"),
    "domain": Domain("faculty", policy="small"),
}


async def limit(cluster: StoredCluster, scope: str, policy: ResourcePolicy) -> None:
    """Give the owner in one scope a limit; the others have none."""
    await cluster.put(policy, Domain("faculty"), Group("lab", "faculty"), User("alice", "faculty"))
    await cluster.put(Keypair(ALICE.access_key, "alice"), Keypair(ALICE_TOO.access_key, "alice"), OWNERS[scope])


async def summary(cluster: OrchestratedCluster, name: str) -> str:
    """The stored sentence about a waiting session."""
    verdict = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId(name)))
    assert verdict is not None
    return f"{verdict.code}: {verdict.summary}"


@pytest.mark.slow
@pytest.mark.parametrize("scope", OWNERS)
async def test_the_session_limit_of_each_scope_holds_and_the_reason_names_the_owner(
    cluster: OrchestratedCluster, scope: str
) -> None:
    await cluster.agent("a1")
    await limit(cluster.stored, scope, ResourcePolicy("small", sessions_max=1))
    for name in ("first", "second"):
        await cluster.submit(name, owner=ALICE)
    await cluster.settle()
    assert [await cluster.status(one) for one in ("first", "second")] == ["running", "pending"]
    assert await summary(cluster, "second") == f"CONCURRENCY_LIMIT: {scope} {NAMES[scope]} runs 1 of 1 sessions"
    await cluster.stop("first")
    await cluster.settle()
    assert await cluster.status("second") == "running"


@pytest.mark.slow
@pytest.mark.parametrize("scope", OWNERS)
async def test_the_pending_limit_of_each_scope_holds_back_the_session_that_comes_later(
    cluster: OrchestratedCluster, scope: str
) -> None:
    await cluster.agent("a1", slots={"cpu": 2000})
    await limit(cluster.stored, scope, ResourcePolicy("small", pending_sessions_max=1))
    await cluster.submit("old", owner=ALICE, slots={"cpu": 1000})
    await cluster.submit("large", owner=ALICE, slots={"cpu": 2000}, priority=5)
    await cluster.submit("busy", slots={"cpu": 1000}, priority=9)
    await cluster.settle()
    assert [await cluster.status(one) for one in ("busy", "old", "large")] == ["running", "pending", "pending"]
    assert await summary(cluster, "old") == (
        f"PENDING_LIMIT: 1 sessions of {scope} {NAMES[scope]} wait ahead of it, 1 may wait at a time"
    )


@pytest.mark.parametrize("scope", OWNERS)
async def test_sessions_in_two_scaling_groups_do_not_hold_each_other_back(scope: str) -> None:
    async with StoredCluster.open("sqlite://") as cluster:
        await cluster.put(ScalingGroup(name=OTHER_GROUP))
        await limit(cluster, scope, ResourcePolicy("small", pending_sessions_max=1))
        await cluster.agent("a1")
        await cluster.agent("b1", scaling_group=OTHER_GROUP)
        await cluster.submit("first", owner=ALICE)
        await cluster.submit("second", owner=ALICE, scaling_group=OTHER_GROUP)
        started = []
        await cluster.snapshots.refresh()
        for group in (DEFAULT_GROUP, OTHER_GROUP):
            plan = schedule(await cluster.snapshots.snapshot(group), SchedulingProfile())
            started += [placement.session_id for placement in plan.placements]
        assert started == ["first"]


@pytest.mark.slow
async def test_best_effort_kernels_are_counted_by_agent_and_by_user(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(
        ScalingGroup(DEFAULT_GROUP, allow_best_effort=True, best_effort_per_agent_max=3, best_effort_per_user_max=2)
    )
    await cluster.agent("a1")
    for name in ("s1", "s2", "s3"):
        await cluster.submit(name, owner=ALICE, slots={})
    for name in ("t1", "t2"):
        await cluster.submit(name, slots={})
    await cluster.settle()
    statuses = [await cluster.status(one) for one in ("s1", "s2", "s3", "t1", "t2")]
    assert statuses == ["running", "running", "pending", "running", "pending"]
    assert "user alice runs 2 best-effort kernels, the limit" in await summary(cluster, "s3")
    assert "a1 lacks room for one more best-effort kernel" in await summary(cluster, "t2")
    await cluster.stop("s1")
    await cluster.settle()
    assert [await cluster.status(one) for one in ("s3", "t2")] == ["running", "pending"]
