"""Transitions that the sessions of replicas cause."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from sokovan.domain.lifecycle.replica import ReplicaStatus, ReplicaTrigger
from sokovan.orchestrator.deployments.replica_moves import observed
from sokovan.orchestrator.deployments.replica_targets import SMOKE_FAILED
from sokovan.orchestrator.deployments.serving_state import ServingStateReader
from sokovan.testing.served_cluster import ServedCluster


@pytest.mark.slow
async def test_a_session_that_is_gone_ends_its_replica() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        state = await ServingStateReader(cluster.store).read()
        [replica] = await cluster.replicas()
        assert observed(state, replica) is None
        removed = replace(state, sessions={})
        for status, trigger in (
            (ReplicaStatus.ACTIVE, ReplicaTrigger.EXITED),
            (ReplicaStatus.STOPPING, ReplicaTrigger.SESSION_ENDED),
        ):
            move = observed(removed, replace(replica, status=status))
            assert move is not None
            assert move.trigger is trigger
            assert "no longer stored" in move.detail


@pytest.mark.slow
async def test_smoke_requests_that_fail_end_a_replica_that_no_proxy_finds_healthy() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        cluster.proxy.health = lambda _endpoint: None
        await cluster.converge()
        [replica] = await cluster.replicas()
        for failures, healthy, code in ((2, None, None), (3, True, None), (3, None, SMOKE_FAILED)):
            proxy = cluster.proxy
            proxy.health, proxy.smokes = partial(_always, healthy), partial(_always, failures)
            await proxy.report()
            move = observed(await ServingStateReader(cluster.store).read(), replica)
            assert (None if move is None else move.code) == code
            assert move is None or move.detail == "a request for one token got status 500"


def _always(value: Any, _endpoint: str) -> Any:
    return value
