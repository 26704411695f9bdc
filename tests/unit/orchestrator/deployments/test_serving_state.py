"""The state of serving counts only proxies that reported lately."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.records import ProxyRecord
from sokovan.orchestrator.deployments.serving_state import ServingState, ServingStateReader
from sokovan.testing.served_cluster import ServedCluster


def proxy(version: int, epoch: str = "e") -> ProxyRecord:
    return ProxyRecord(proxy_id="p", incarnation=1, epoch=epoch, version=version, reported_ms=0)


def test_a_version_is_acknowledged_when_every_live_proxy_has_it() -> None:
    assert ServingState(now_ms=0, epoch="e").is_acknowledged(5)
    assert ServingState(now_ms=0, epoch="e", proxies=[proxy(5), proxy(6)]).is_acknowledged(5)
    assert not ServingState(now_ms=0, epoch="e", proxies=[proxy(5), proxy(4)]).is_acknowledged(5)
    assert not ServingState(now_ms=0, epoch="e", proxies=[proxy(9, "other")]).is_acknowledged(5)


@pytest.mark.slow
async def test_the_state_has_all_that_belongs_to_live_deployments() -> None:
    async with ServedCluster.serve() as cluster:
        reader = ServingStateReader(cluster.store)
        assert (await reader.read()).deployments == {}
        record = await cluster.deploy(replicas=2)
        await cluster.converge()
        state = await reader.read()
        [replica, _] = state.replicas_of(record.deployment_id, 1)
        assert state.revision_of(replica).number == 1
        assert state.session_of(replica) is not None
        assert [one.healthy for one in state.reports_on(replica)] == [True]
        assert state.replicas_of(record.deployment_id, 2) == []
        await cluster.clock.advance(11)
        assert (await reader.read()).proxies == []
