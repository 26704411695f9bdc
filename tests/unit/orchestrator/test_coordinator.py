"""The lease of a coordinator: taken, renewed by a third, given up."""

import pytest

from sokovan.orchestrator.coordinator import Leadership
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


def leadership(cluster: OrchestratedCluster, holder: str) -> Leadership:
    return Leadership(cluster.stored.leases, name="work", holder=holder, clock=cluster.clock, ttl_s=9.0)


async def test_one_of_two_leads(cluster: OrchestratedCluster) -> None:
    first, second = leadership(cluster, "m1"), leadership(cluster, "m2")
    assert await first.held() is not None
    assert await second.held() is None


async def test_a_lease_is_renewed_by_a_third_of_its_time_and_not_more_often(cluster: OrchestratedCluster) -> None:
    leader = leadership(cluster, "m1")
    await leader.held()
    for _ in range(10):
        await cluster.clock.advance(3)
        assert await leader.held() is not None
    current = await cluster.stored.leases.current("work")
    assert current is not None
    assert current.epoch == 1


@pytest.mark.slow
async def test_a_leader_that_was_away_for_too_long_loses_its_lease(cluster: OrchestratedCluster) -> None:
    first, second = leadership(cluster, "m1"), leadership(cluster, "m2")
    before = await first.held()
    assert await second.held() is None
    await cluster.clock.advance(10)
    after = await second.held()
    assert before is not None
    assert after is not None
    assert after.epoch == before.epoch + 1
    assert await first.held() is None


async def test_a_leader_that_steps_down_retries_at_the_next_renewal(cluster: OrchestratedCluster) -> None:
    leader = leadership(cluster, "m1")
    await leader.held()
    leader.step_down()
    assert leader.fence is None
    assert await leader.held() is None
    await cluster.clock.advance(3)
    assert await leader.held() is not None


@pytest.mark.slow
async def test_a_lease_that_is_given_back_is_free_at_once(cluster: OrchestratedCluster) -> None:
    first, second = leadership(cluster, "m1"), leadership(cluster, "m2")
    await first.held()
    await first.release()
    assert await second.held() is not None
    await first.release()
    assert await cluster.stored.leases.current("work") is not None
