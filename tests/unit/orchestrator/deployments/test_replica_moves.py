"""Transitions that the sessions of replicas cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.lifecycle.replica import ReplicaStatus, ReplicaTrigger
from sokovan.orchestrator.deployments.replica_moves import observed
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
