"""Deployments from creation to the end, through the store and all coordinators."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.testing.served_cluster import ServedCluster
from sokovan.testing.stored_cluster import BY_USER

pytestmark = pytest.mark.slow


async def deployment_rows(cluster: ServedCluster, name: str = "chat") -> list[tuple[str | None, str, str]]:
    """The history of a deployment as rows of its table; notes and self-loops of scaling included."""
    entries = await cluster.store.read(lambda unit: unit.deployments.history(DeploymentId(f"d-{name}")))
    return [(entry.before, entry.trigger, entry.after) for entry in entries]


async def route_rows(cluster: ServedCluster, name: str = "chat") -> list[tuple[str | None, str, str]]:
    route = await cluster.route(name)
    assert route is not None
    entries = await cluster.store.read(lambda unit: unit.routes.history(route.spec.route_id))
    return [(entry.before, entry.trigger, entry.after) for entry in entries]


async def test_every_row_of_the_deployment_and_route_tables_occurs() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        assert await cluster.statuses() == ["active", "active"]
        await cluster.rescale(3)
        await cluster.converge()
        assert await cluster.statuses() == ["active", "active", "active"]
        record = await cluster.deployment()
        await cluster.store.run(lambda unit: unit.deployments.move(record, DeploymentTrigger.DELETE_REQUESTED, BY_USER))
        await cluster.converge()
        assert (await cluster.deployment()).status == "terminated"
        assert await deployment_rows(cluster) == [
            (None, "created", "pending"),
            ("pending", "replicas_requested", "provisioning"),
            ("provisioning", "replicas_healthy", "running"),
            ("running", "scale_requested", "running"),
            ("running", "scaled", "running"),
            ("running", "delete_requested", "destroying"),
            ("destroying", "replicas_gone", "terminated"),
        ]
        rows = await route_rows(cluster)
        wanted = [
            (None, "created", "pending"),
            ("pending", "configured", "provisioning"),
            ("provisioning", "endpoint_healthy", "running"),
            ("running", "endpoints_changed", "running"),
            ("running", "delete_requested", "terminating"),
            ("terminating", "configuration_removed", "terminated"),
        ]
        assert [row for row in wanted if row not in rows] == []
        assert cluster.failures == []


async def test_replicas_are_inference_sessions_with_a_leased_port_in_their_command() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        [replica] = await cluster.replicas()
        assert replica.session_id is not None
        assert replica.endpoint is not None
        session = await cluster.session(replica.session_id)
        assert (session.spec.session_type, session.spec.replica) == ("inference", replica.place)
        [agent] = cluster.agents.all.values()
        [acted] = agent.machine.values()
        assert acted.launch.command == ("serve", "--port", str(replica.endpoint.port))
        assert acted.launch.environment["KEY"] == replica.secret


async def test_a_new_leader_goes_on_where_the_former_stopped() -> None:
    """After each single cycle the manager is replaced; no session is created twice."""
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        for _ in range(12):
            await cluster.agents.beat()
            await cluster.round()
            await cluster.deployments.close()
            await cluster.routes.close()
            cluster.deployments, cluster.routes = cluster.new_serving()
        await cluster.converge()
        assert await cluster.statuses() == ["active", "active"]
        assert (await cluster.deployment()).status == "running"
        [agent] = cluster.agents.all.values()
        assert len(agent.machine) == 2
