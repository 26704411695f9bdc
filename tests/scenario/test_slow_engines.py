"""An engine that loads for twenty minutes is not taken for one that failed, and one that never loads is."""

from __future__ import annotations

import pytest

from sokovan.testing.served_cluster import ServedCluster, revision_of

pytestmark = pytest.mark.slow

MINUTE_S = 60


@pytest.mark.parametrize("answers", [None, False], ids=["no_connection", "not_ready"])
async def test_an_engine_that_loads_for_twenty_minutes_is_never_ended_early(*, answers: bool | None) -> None:
    async with ServedCluster.serve() as cluster:
        cluster.proxy.health = lambda _endpoint: answers
        await cluster.deploy(revision=revision_of(startup_timeout_s=1_800))
        await cluster.serve_for(20 * MINUTE_S, step_s=20)
        [loading] = await cluster.replicas()
        assert (loading.status, loading.place.attempt) == ("warming", 1)
        assert (await cluster.deployment()).status == "provisioning"

        cluster.proxy.health = lambda _endpoint: True
        await cluster.serve_for(MINUTE_S, step_s=10)
        [serving] = await cluster.replicas()
        assert (serving.status, serving.replica_id) == ("active", loading.replica_id)
        assert (await cluster.deployment()).status == "running"


async def test_an_engine_that_is_not_ready_when_its_time_is_over_has_failed_and_another_is_tried() -> None:
    async with ServedCluster.serve() as cluster:
        cluster.proxy.health = lambda _endpoint: False
        await cluster.deploy(revision=revision_of(startup_timeout_s=1_800))
        await cluster.serve_for(29 * MINUTE_S, step_s=20)
        [loading] = await cluster.replicas()
        assert (loading.status, loading.place.attempt) == ("warming", 1)

        await cluster.serve_for(3 * MINUTE_S, step_s=10)
        key = (await cluster.deployment()).deployment_id
        replicas = await cluster.store.read(lambda unit: unit.replicas.newest(key, limit=10))
        assert [(one.status, one.place.attempt) for one in replicas] == [("warming", 2), ("failed", 1)]
        assert replicas[1].reason_code == "not-ready-in-time"
