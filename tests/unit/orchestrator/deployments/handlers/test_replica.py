"""Replicas converge to the wanted number, whatever happens to their sessions."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.replica import ReplicaStatus
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change
from sokovan.domain.serving.replica import CRASH_LOOP
from sokovan.testing.served_cluster import ServedCluster, revision_of

pytestmark = pytest.mark.slow


async def codes(cluster: ServedCluster) -> list[str]:
    record = await cluster.deployment()
    entries = await cluster.store.read(lambda unit: unit.deployments.history(record.deployment_id))
    return [entry.change.code for entry in entries]


async def test_a_replica_whose_kernel_exits_is_replaced_after_ten_seconds() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        [agent] = cluster.agents.all.values()
        await agent.ends(agent.running()[0], code=1)
        await cluster.converge()
        assert await cluster.statuses() == ["active"]
        record = await cluster.deployment()
        assert record.status == "running"
        newest = await cluster.store.read(lambda unit: unit.replicas.newest(record.deployment_id, limit=1))
        assert newest[0].status is ReplicaStatus.FAILED
        assert "exit code 1" in newest[0].reason
        await cluster.serve_for(11)
        assert await cluster.statuses() == ["active", "active"]
        assert sorted(one.place.attempt for one in await cluster.replicas()) == [1, 2]


async def test_three_failures_in_ten_minutes_stop_further_attempts() -> None:
    async with ServedCluster.serve() as cluster:
        [agent] = cluster.agents.all.values()
        agent.script.exits = lambda _launch: 3
        await cluster.deploy()
        await cluster.serve_for(120, step_s=5)
        assert await cluster.statuses() == []
        record = await cluster.deployment()
        newest = await cluster.store.read(lambda unit: unit.replicas.newest(record.deployment_id, limit=9))
        assert [one.status for one in newest] == [ReplicaStatus.FAILED] * 3
        assert codes_of_loop(await codes(cluster)) == [CRASH_LOOP]
        entry = cluster.proxy.entries["d-chat"]
        assert entry.refusal is not None
        assert entry.refusal.code == CRASH_LOOP
        agent.script.exits = lambda _launch: None
        await cluster.serve_for(600, step_s=20)
        assert await cluster.statuses() == ["active"]


async def test_a_deployment_that_serves_replaces_three_replicas_that_fail_at_once() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=5)
        await cluster.converge()
        [agent] = cluster.agents.all.values()
        for kernel in list(agent.running())[:3]:
            await agent.ends(kernel, code=1)
        await cluster.converge()
        assert await cluster.statuses() == ["active"] * 2
        await cluster.serve_for(11)
        assert await cluster.statuses() == ["active"] * 5
        assert CRASH_LOOP not in await codes(cluster)


def codes_of_loop(found: list[str]) -> list[str]:
    return [code for code in found if code == CRASH_LOOP]


async def test_a_request_that_no_session_can_have_fails_with_the_reason() -> None:
    async with ServedCluster.serve() as cluster:
        record = await cluster.deploy(revision=revision_of(image="absent"))
        await cluster.converge()
        [failed] = await cluster.store.read(lambda unit: unit.replicas.newest(record.deployment_id, limit=9))
        assert failed.status is ReplicaStatus.FAILED
        assert "there is no image 'absent'" in failed.reason


async def test_a_replica_that_waits_for_room_does_not_fail() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2, revision=revision_of(resources={"cpu": "5", "mem": "1Gi"}))
        await cluster.serve_for(100, step_s=20)
        assert await cluster.statuses() == ["active", "starting"]
        assert (await cluster.deployment()).status == "provisioning"
        await cluster.agent("more")
        await cluster.serve_for(20, step_s=5)
        assert await cluster.statuses() == ["active", "active"]
        assert (await cluster.deployment()).status == "running"


async def test_a_replica_that_is_not_ready_in_time_fails_and_its_session_ends() -> None:
    async with ServedCluster.serve() as cluster:
        cluster.proxy.health = lambda _endpoint: False
        await cluster.deploy(revision=revision_of(startup_timeout_s=60))
        await cluster.converge()
        assert await cluster.statuses() == ["warming"]
        [replica] = await cluster.replicas()
        await cluster.serve_for(65, step_s=5)
        ended = await cluster.store.read(lambda unit: unit.replicas.get(replica.replica_id))
        assert (ended.status, ended.reason_code) == (ReplicaStatus.FAILED, "not-ready-in-time")
        assert await cluster.status(str(replica.session_id)) == "terminated"


async def test_a_slow_loader_is_not_killed_early() -> None:
    async with ServedCluster.serve() as cluster:
        cluster.proxy.health = lambda _endpoint: None
        await cluster.deploy()
        await cluster.serve_for(20 * 60, step_s=60)
        assert await cluster.statuses() == ["warming"]
        cluster.proxy.health = lambda _endpoint: True
        await cluster.converge()
        assert await cluster.statuses() == ["active"]


async def test_without_a_proxy_no_replica_is_late() -> None:
    async with ServedCluster.serve() as cluster:
        cluster.proxy.alive = False
        await cluster.deploy(revision=revision_of(startup_timeout_s=60))
        await cluster.serve_for(120, step_s=20)
        assert await cluster.statuses() == ["warming"]


async def test_scaling_down_takes_replicas_that_do_not_serve_yet_first() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        [first] = await cluster.replicas()
        served = {first.endpoint.endpoint_id if first.endpoint else ""}
        cluster.proxy.health = lambda endpoint: endpoint in served
        await cluster.rescale(3)
        await cluster.converge()
        assert await cluster.statuses() == ["active", "warming", "warming"]
        await cluster.rescale(1)
        await cluster.converge()
        assert [one.replica_id for one in await cluster.replicas()] == [first.replica_id]


async def test_the_session_of_a_replica_that_a_user_stops_is_replaced() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        [replica] = await cluster.replicas()
        await cluster.stop(str(replica.session_id))
        await cluster.converge()
        assert await cluster.statuses() == []
        await cluster.serve_for(12, step_s=2)
        assert await cluster.statuses() == ["active"]


async def end_as(cluster: ServedCluster, code: str, revision: int = 1) -> None:
    """End the session of a replica for a reason."""
    session = next(one.session_id for one in await cluster.replicas() if one.place.revision == revision)
    assert session is not None
    change = Change("coordinator", Cause.COORDINATOR, code, "for the test")
    await cluster.store.run(lambda unit: unit.sessions.set_goals([session], Goal.STOP, change))
    await cluster.converge()


@pytest.mark.parametrize("code", ["agent-lost", "kernel-lost", "preempted", "reclaimed", "user-requested"])
async def test_ends_that_are_not_the_doing_of_the_engine_neither_delay_nor_stop_attempts(code: str) -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        for attempt in range(2, 6):
            await end_as(cluster, code)
            assert await cluster.statuses() == ["active"]
            assert (await cluster.replicas())[0].place.attempt == attempt
        assert codes_of_loop(await codes(cluster)) == []


async def test_replicas_of_a_lost_agent_are_started_elsewhere_at_once() -> None:
    async with ServedCluster.serve(agents=2) as cluster:
        await cluster.deploy(replicas=2, revision=revision_of(resources={"cpu": "5", "mem": "1Gi"}))
        await cluster.converge()
        await cluster.agent("third")
        lost = cluster.agents.all[AgentId("a0")]
        lost.loses_its_machine()
        for _ in range(300):
            await cluster.serve_for(1)
            if all(one.endpoint and one.endpoint.agent_id != "a0" for one in await cluster.replicas()):
                break
        assert await cluster.statuses() == ["active", "active"]
        assert {one.endpoint.agent_id for one in await cluster.replicas() if one.endpoint} == {"a1", "third"}
