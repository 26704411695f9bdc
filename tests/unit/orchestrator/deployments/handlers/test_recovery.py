"""Unhealthy replicas are replaced, and no session is left behind."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import ReplicaId
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus, ReplicaTrigger
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.testing.served_cluster import OWNER, ServedCluster, define_plainly, revision_of
from sokovan.testing.stored_cluster import BY_COORDINATOR

pytestmark = pytest.mark.slow


async def test_a_replica_that_stays_unhealthy_is_replaced_at_once() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        sick = (await cluster.replicas())[0]
        assert sick.endpoint is not None
        name = sick.endpoint.endpoint_id
        cluster.proxy.health = lambda endpoint: endpoint != name
        await cluster.converge()
        assert await cluster.statuses() == ["active", "unhealthy"]
        await cluster.serve_for(29, step_s=29)
        assert await cluster.statuses() == ["active", "unhealthy"]
        await cluster.serve_for(2)
        assert await cluster.statuses() == ["active", "active"]
        ended = await cluster.store.read(lambda unit: unit.replicas.get(sick.replica_id))
        assert ended.status is ReplicaStatus.GONE


async def test_a_replica_that_recovers_in_time_stays() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        [replica] = await cluster.replicas()
        cluster.proxy.health = lambda _endpoint: False
        await cluster.serve_for(20, step_s=5)
        cluster.proxy.health = lambda _endpoint: True
        await cluster.serve_for(20, step_s=5)
        assert [one.replica_id for one in await cluster.replicas()] == [replica.replica_id]
        assert await cluster.statuses() == ["active"]


async def test_a_session_whose_replica_ended_before_it_knew_of_it_is_ended() -> None:
    async with ServedCluster.serve() as cluster:
        record = await cluster.deploy(replicas=0)
        await cluster.converge()
        place = ReplicaPlace(record.deployment_id, 1, 7, 1)
        request = ReplicaRequests(define_plainly).request(record.spec, revision_of(), place, "s")
        session = await cluster.controller.enqueue(request, Caller(OWNER), key=place.key)
        created = await cluster.store.run(
            lambda unit: unit.replicas.create(ReplicaId("rep"), place, "s", BY_COORDINATOR)
        )
        await cluster.store.run(lambda unit: unit.replicas.move(created, ReplicaTrigger.STOP_REQUESTED, BY_COORDINATOR))
        await cluster.serve_for(31, step_s=31)
        assert await cluster.status(session.session_id) in {"terminated", "cancelled"}


async def test_replicas_that_pass_their_checks_and_fail_their_answers_are_replaced_within_bounds() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        good = (await cluster.replicas())[1]
        assert good.endpoint is not None
        name = good.endpoint.endpoint_id
        sick = (await cluster.replicas())[0]
        assert sick.endpoint is not None
        cluster.proxy.outstanding[sick.endpoint.endpoint_id] = 1
        # Every replica but one fails: its replacements too.
        cluster.proxy.failing = lambda endpoint: endpoint != name
        await cluster.converge()
        assert sorted(await cluster.statuses()) == ["active", "active", "draining"], "its answer under way may come"
        cluster.proxy.outstanding.clear()
        await cluster.serve_for(120, step_s=5)
        assert await cluster.statuses() == ["active", "active"], "it serves on rather than nothing does"
        failures = await cluster.store.read(lambda unit: unit.replicas.failures(since_ms=0))
        [failed] = failures.values()
        assert [one.reason_code for one in failed] == ["answers-fail"] * 2, "a third would be a crash loop"
        history = await cluster.store.read(lambda unit: unit.replicas.history(sick.replica_id))
        assert [(one.after, one.change.code) for one in history][-3:] == [
            ("unhealthy", "answers-fail"), ("draining", "answers-fail"), ("failed", "answers-fail"),
        ]  # fmt: skip
        assert failed[0].reason == "20 of its last 20 answers failed"
        assert name in {one.endpoint.endpoint_id for one in await cluster.replicas() if one.endpoint is not None}


async def test_the_last_replica_that_answers_is_kept_whatever_its_proxies_say() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        cluster.proxy.failing = lambda _endpoint: True
        await cluster.serve_for(60, step_s=10)
        assert await cluster.statuses() == ["active", "active"]
        assert not await cluster.store.read(lambda unit: unit.replicas.failures(since_ms=0))
