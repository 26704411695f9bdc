"""Budgets of evictions: how much one owner loses in an hour, whatever becomes of the evicted."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import PreemptedPolicy, SessionType
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.scenario.evicting import AT_ONCE, PREEMPTING

pytestmark = pytest.mark.slow  # many cycles through the store per test

ANN = Owner(user="ann", access_key=AccessKey("ann"))
BOB = Owner(user="bob", access_key=AccessKey("bob"))
ONE: dict[str, Any] = {"slots": {"cpu": 1000}, "session_type": SessionType.BATCH}
HERS = [f"hers{number}" for number in range(8)]


async def all_hers(cluster: OrchestratedCluster, **options: Any) -> None:
    """An agent that eight sessions of ann fill."""
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots={"cpu": 8000})
    for name in HERS:
        await cluster.submit(name, owner=ANN, **{**ONE, **options})
    await cluster.settle()


async def takes(cluster: OrchestratedCluster, name: str, owner: Owner = BOB) -> None:
    """Submit a session of high priority, and let it have what it may."""
    await cluster.submit(name, owner=owner, priority=5, **ONE)
    await cluster.pass_time(3)


async def evicted(cluster: OrchestratedCluster) -> int:
    return sum([len((await cluster.session(name)).evictions) for name in HERS])


async def test_sessions_that_end_by_their_eviction_count_for_the_budget_of_their_owner(
    cluster: OrchestratedCluster,
) -> None:
    await all_hers(cluster, on_preempt=PreemptedPolicy.END)
    for number in range(5):
        await takes(cluster, f"taker{number}")
    # Three of eight are gone, and four would be more than half of what she runs. The next manager knows as much.
    assert await evicted(cluster) == 3
    await cluster.fail_over()
    await cluster.pass_time(10)
    assert await evicted(cluster) == 3
    await cluster.pass_time(3600, step_s=120)
    assert await evicted(cluster) > 3


async def test_a_user_who_evicts_himself_protects_nothing_from_others(cluster: OrchestratedCluster) -> None:
    await all_hers(cluster)
    for number in range(4):
        await takes(cluster, f"own{number}", ANN)
    assert await evicted(cluster) == 4
    await takes(cluster, "taker")
    assert (await evicted(cluster), await cluster.status("taker")) == (5, "running")
