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
