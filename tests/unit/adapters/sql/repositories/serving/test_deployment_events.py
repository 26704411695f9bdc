"""The merged histories of a deployment."""

from __future__ import annotations

from sokovan.testing.served_cluster import ServedCluster


async def test_events_of_a_deployment_are_those_of_all_its_parts_in_order_of_time() -> None:
    async with ServedCluster.serve() as cluster:
        record = await cluster.deploy(replicas=2)
        await cluster.deploy("other")
        await cluster.converge()
        events = await cluster.store.read(lambda unit: unit.deployments.events(record.deployment_id, limit=100))
        subjects = {subject for subject, _ in events}
        assert subjects == {"deployment", "route", "replica 0 (revision 1)", "replica 1 (revision 1)"}
        assert [entry.at_ms for _, entry in events] == sorted(entry.at_ms for _, entry in events)
        own = [entry for subject, entry in events if subject == "deployment"]
        assert own == await cluster.store.read(lambda unit: unit.deployments.history(record.deployment_id))
        last = await cluster.store.read(lambda unit: unit.deployments.events(record.deployment_id, limit=3))
        assert last == events[-3:]
