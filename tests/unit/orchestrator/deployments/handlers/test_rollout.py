"""Updates change revisions without a gap, and return by themselves if they fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.rollout import RolloutStatus, RolloutTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest
from sokovan.domain.serving.records import RevisionTraffic, RolloutRecord, RouteDemand
from sokovan.domain.serving.rollout import RolloutPolicy, RolloutStrategy, WhenFull
from sokovan.testing.served_cluster import ServedCluster, define_plainly, revision_of
from sokovan.testing.stored_cluster import BY_USER

pytestmark = pytest.mark.slow


async def update(cluster: ServedCluster, **options: Any) -> RolloutRecord:
    """Add a revision, and begin the rollout to it."""
    record = await cluster.deployment()
    added = await cluster.store.run(lambda unit: unit.deployments.add_revision(record, revision_of(**options), BY_USER))
    policy = record.spec.rollout
    rollout = RolloutRecord(
        rollout_id=f"rollout-{added.number}",
        deployment_id=record.deployment_id,
        revision_from=record.revision,
        revision_to=added.number,
        strategy=policy.strategy,
        status=RolloutStatus.PLANNING,
        version=1,
        surge=policy.surge,
        unavailable=policy.unavailable,
    )
    return await cluster.store.run(lambda unit: unit.rollouts.create(rollout, BY_USER))


async def newest(cluster: ServedCluster) -> RolloutRecord:
    record = await cluster.deployment()
    return (await cluster.store.read(lambda unit: unit.rollouts.newest(record.deployment_id, limit=1)))[0]


async def serving(cluster: ServedCluster) -> dict[int, int]:
    """How many ACTIVE replicas each revision has."""
    found: dict[int, int] = {}
    for one in await cluster.replicas():
        if one.status == "active":
            found[one.place.revision] = found.get(one.place.revision, 0) + 1
    return found


async def test_a_rolling_update_always_has_enough_replicas_that_serve() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        await update(cluster, environment={"V": "2"})
        for _ in range(60):
            await cluster.serve_for(1)
            assert sum((await serving(cluster)).values()) >= 2
            assert len(await cluster.replicas()) <= 3
            if (await newest(cluster)).status is RolloutStatus.COMPLETED:
                break
        await cluster.converge()
        assert await serving(cluster) == {2: 2}
        record = await cluster.deployment()
        assert (record.revision, record.status) == (2, "running")


@pytest.mark.parametrize("replicas", [2, 3])
async def test_a_full_cluster_replaces_one_replica_at_a_time(replicas: int) -> None:
    large = {"cpu": "4", "mem": "1Gi"}  # of 8 cpus: two fit, a third waits
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=replicas, revision=revision_of(resources=large))
        await cluster.serve_for(20)
        assert await serving(cluster) == {1: 2}
        await update(cluster, resources=large, environment={"V": "2"})
        for _ in range(90):
            await cluster.serve_for(1)
            assert sum((await serving(cluster)).values()) >= 1
            if await serving(cluster) == {2: 2}:
                break
        assert await serving(cluster) == {2: 2}
        assert "one is replaced at a time" in (await newest(cluster)).reason


async def full(cluster: ServedCluster, policy: RolloutPolicy, *, replicas: int = 1) -> None:
    """Update a deployment whose replicas leave no room for another one."""
    large = {"cpu": str(8 // replicas), "mem": "1Gi"}
    await cluster.deploy(replicas=replicas, revision=revision_of(resources=large), rollout=policy)
    await cluster.converge()
    assert await serving(cluster) == {1: replicas}
    await update(cluster, resources=large, environment={"V": "2"})


async def test_an_update_that_is_to_wait_for_room_does_so_and_says_it_once() -> None:
    async with ServedCluster.serve() as cluster:
        await full(cluster, RolloutPolicy(when_full=WhenFull.WAIT), replicas=2)
        await cluster.serve_for(30, step_s=2)
        rollout = await newest(cluster)
        assert rollout.status is RolloutStatus.PLANNING
        assert await serving(cluster) == {1: 2}
        events = await cluster.store.read(lambda unit: unit.deployments.events(rollout.deployment_id, limit=200))
        [waits] = [entry for _, entry in events if entry.change.code == "no-room-for-surge"]
        assert "waits for room for an additional replica" in waits.change.detail
        assert waits.times > 1
        await cluster.agent("more")
        for _ in range(60):
            await cluster.serve_for(1)
            assert sum((await serving(cluster)).values()) >= 2
        assert (await newest(cluster)).status is RolloutStatus.COMPLETED
        assert await serving(cluster) == {2: 2}


@pytest.mark.parametrize(
    ("policy", "replicas"),
    [
        (RolloutPolicy(when_full=WhenFull.FAIL), 2),
        # One replica that is replaced in its place would leave none that serves.
        (RolloutPolicy(when_full=WhenFull.REPLACE), 1),
        (RolloutPolicy(strategy=RolloutStrategy.BLUE_GREEN), 2),
    ],
    ids=["fail", "replace the only one", "blue/green"],
)
async def test_an_update_without_room_fails_and_the_old_revision_serves_all_the_time(
    policy: RolloutPolicy, replicas: int
) -> None:
    async with ServedCluster.serve() as cluster:
        await full(cluster, policy, replicas=replicas)
        for _ in range(20):
            await cluster.serve_for(1)
            assert await serving(cluster) == {1: replicas}
        rollout = await newest(cluster)
        assert rollout.status is RolloutStatus.ROLLED_BACK
        assert "there is no room for an additional replica" in rollout.reason
        assert (await cluster.deployment()).revision == 1
        assert {one.place.revision for one in await cluster.replicas()} == {1}


async def test_a_new_revision_that_crashes_is_rolled_back_and_the_old_one_serves() -> None:
    async with ServedCluster.serve() as cluster:
        [agent] = cluster.agents.all.values()
        await cluster.deploy(replicas=2)
        await cluster.converge()
        agent.script.exits = lambda launch: 1 if launch.environment.get("V") == "2" else None
        cluster.define = with_environment
        await update(cluster, environment={"V": "2"})
        for _ in range(20):
            await cluster.serve_for(10, step_s=5)
            assert (await serving(cluster)).get(1) == 2
        rollout = await newest(cluster)
        assert rollout.status is RolloutStatus.ROLLED_BACK
        assert "failed repeatedly" in rollout.reason
        assert (await cluster.deployment()).revision == 1
        assert await serving(cluster) == {1: 2}


async def evict(cluster: ServedCluster, session: SessionId) -> None:
    change = Change("coordinator", Cause.COORDINATOR, "preempted", "for another session")
    await cluster.store.run(lambda unit: unit.sessions.set_goals([session], Goal.STOP, change))
    await cluster.converge()


async def test_replicas_of_a_new_revision_that_are_evicted_do_not_end_its_rollout() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        await update(cluster, environment={"V": "2"})
        await cluster.serve_for(2)
        for _ in range(4):
            [session] = [one.session_id for one in await cluster.replicas() if one.place.revision == 2]
            assert session is not None
            await evict(cluster, session)
        assert (await newest(cluster)).status is RolloutStatus.PROGRESSING
        await cluster.serve_for(30)
        assert (await newest(cluster)).status is RolloutStatus.COMPLETED


def with_environment(request: EngineRequest) -> EngineDefinition:
    plain = define_plainly(request)
    return EngineDefinition(
        command=plain.command,
        environment={**request.environment, **plain.environment},
        probe=plain.probe,
        upstream_model=plain.upstream_model,
        concurrency_max=plain.concurrency_max,
        image=plain.image,
    )


async def test_an_aborted_rollout_returns_to_the_old_revision() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        await update(cluster)
        await cluster.serve_for(3)
        under_way = await newest(cluster)
        await cluster.store.run(lambda unit: unit.rollouts.move(under_way, RolloutTrigger.ABORTED, BY_USER))
        await cluster.serve_for(30, step_s=2)
        assert (await newest(cluster)).status is RolloutStatus.ROLLED_BACK
        assert await serving(cluster) == {1: 2}


async def test_blue_green_flips_all_requests_at_once() -> None:
    async with ServedCluster.serve() as cluster:
        policy = RolloutPolicy(strategy=RolloutStrategy.BLUE_GREEN, keep_s=30)
        await cluster.deploy(replicas=2, rollout=policy)
        await cluster.converge()
        await update(cluster)
        await cluster.serve_for(15)
        waiting = await newest(cluster)
        assert waiting.status is RolloutStatus.AWAITING_PROMOTION
        assert weights(cluster) == {1: 1000, 2: 0}
        await cluster.store.run(lambda unit: unit.rollouts.move(waiting, RolloutTrigger.PROMOTED, BY_USER))
        await cluster.serve_for(5)
        assert weights(cluster) == {1: 0, 2: 1000}
        assert await serving(cluster) == {1: 2, 2: 2}
        await cluster.serve_for(40, step_s=5)
        assert (await newest(cluster)).status is RolloutStatus.COMPLETED
        assert await serving(cluster) == {2: 2}


async def test_a_canary_takes_a_growing_share() -> None:
    async with ServedCluster.serve() as cluster:
        policy = RolloutPolicy(strategy=RolloutStrategy.CANARY, steps=(25, 100), hold_s=20)
        await cluster.deploy(replicas=2, rollout=policy)
        await cluster.converge()
        await update(cluster)
        await cluster.serve_for(12)
        assert weights(cluster) == {1: 750, 2: 250}
        await cluster.serve_for(60, step_s=2)
        assert (await newest(cluster)).status is RolloutStatus.COMPLETED
        assert await serving(cluster) == {2: 2}


async def test_a_canary_is_held_at_the_share_that_is_set() -> None:
    async with ServedCluster.serve() as cluster:
        policy = RolloutPolicy(strategy=RolloutStrategy.CANARY, steps=(25, 100), hold_s=20)
        await cluster.deploy(replicas=2, rollout=policy)
        await cluster.converge()
        await update(cluster)
        await set_shares(cluster, {"2": 60})
        await cluster.serve_for(60, step_s=2)
        assert weights(cluster) == {1: 400, 2: 600}
        assert await serving(cluster) == {1: 2, 2: 2}
        await set_shares(cluster, {})
        await cluster.serve_for(60, step_s=2)
        assert (await newest(cluster)).status is RolloutStatus.COMPLETED


async def set_shares(cluster: ServedCluster, shares: dict[str, int]) -> None:
    record = await cluster.deployment()
    spec = replace(record.spec, shares=shares)
    await cluster.store.run(lambda unit: unit.deployments.configure(record, spec, BY_USER))


def weights(cluster: ServedCluster) -> dict[int, int]:
    return {one.revision: one.weight for one in cluster.proxy.entries["d-chat"].revisions}


async def test_a_definition_that_cannot_be_made_fails_the_rollout_only() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=1)
        await cluster.converge()

        def refuse(request: EngineRequest) -> EngineDefinition:
            if request.variant == "broken":
                raise SokovanError("no such engine")
            return define_plainly(request)

        cluster.define = refuse
        await update(cluster, variant="broken")
        await cluster.serve_for(60, step_s=5)
        assert await serving(cluster) == {1: 1}


def served(old: RevisionTraffic, new: RevisionTraffic) -> dict[str, RouteDemand]:
    return {"d-chat": RouteDemand(revisions={"1": old, "2": new})}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (RevisionTraffic(served=60, failed=30), "more requests fail"),
        (RevisionTraffic(served=60, first_byte_counts=(0, 0, 0, 0, 0, 0, 0, 60)), "the first byte comes later"),
    ],
)
@pytest.mark.parametrize("strategy", [RolloutStrategy.CANARY, RolloutStrategy.ROLLING])
async def test_a_revision_that_serves_worse_than_the_old_one_is_rolled_back(
    bad: RevisionTraffic, said: str, strategy: RolloutStrategy
) -> None:
    good = RevisionTraffic(served=1000, first_byte_counts=(0, 0, 900))
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2, rollout=RolloutPolicy(strategy=strategy, hold_s=30))
        await cluster.converge()
        await update(cluster, environment={"V": "2"})
        await cluster.serve_for(8)
        assert (await serving(cluster))[2] == 1
        cluster.proxy.demand = served(good, bad)
        await cluster.serve_for(40, step_s=2)
        rollout = await newest(cluster)
        assert rollout.status is RolloutStatus.ROLLED_BACK
        assert await serving(cluster) == {1: 2}
        events = await cluster.store.read(lambda unit: unit.deployments.events(rollout.deployment_id, limit=200))
        assert any(said in entry.change.detail for subject, entry in events if subject == "deployment")


async def test_without_analysis_a_slower_revision_is_accepted() -> None:
    good = RevisionTraffic(served=1000, first_byte_counts=(0, 0, 900))
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(rollout=RolloutPolicy(analysis=False))
        await cluster.converge()
        await update(cluster, environment={"V": "2"})
        await cluster.serve_for(4)
        cluster.proxy.demand = served(good, RevisionTraffic(served=60, failed=60))
        await cluster.serve_for(40, step_s=2)
        assert (await newest(cluster)).status is RolloutStatus.COMPLETED


async def test_a_revision_that_answers_no_request_never_serves_and_is_rolled_back() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        good = {one.endpoint_id for one in cluster.proxy.entries["d-chat"].endpoints}
        cluster.proxy.health = lambda endpoint: True if endpoint in good else None
        cluster.proxy.smokes = lambda endpoint: 0 if endpoint in good else 3
        await update(cluster, environment={"V": "2"})
        for _ in range(10):
            await cluster.serve_for(1)
            assert await serving(cluster) == {1: 2}
        rollout = await newest(cluster)
        assert rollout.status is RolloutStatus.ROLLED_BACK
        events = await cluster.store.read(lambda unit: unit.deployments.events(rollout.deployment_id, limit=200))
        said = "a new replica did not answer requests: a request for one token got status 500"
        assert any(said in entry.change.detail for subject, entry in events if subject == "deployment")
