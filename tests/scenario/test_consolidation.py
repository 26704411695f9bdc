"""Consolidation through the store: sessions move, and keep their places on the way."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.session import SessionType
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP
from tests.scenario.evicting import A1, AT_ONCE, FOUR, WHOLE_AGENT, evicted_without_notice

pytestmark = pytest.mark.slow  # many cycles through the store per test

CONSOLIDATING = ScalingGroup(
    name=DEFAULT_GROUP, scheduler_opts={"actions": ["enqueue", "allocate", "consolidate"], "queue_policy": "capacity"}
)


async def fragmented(cluster: OrchestratedCluster, **options: Any) -> None:
    """Two agents of four cpu, each half in use, and a session that needs one of them whole."""
    await cluster.stored.put(CONSOLIDATING, AT_ONCE)
    for name in ("a1", "a2"):
        await cluster.agent(name, slots=WHOLE_AGENT)
    half: dict[str, Any] = {"slots": {"cpu": 2000}, "session_type": SessionType.BATCH}
    for name in ("x", "f1", "y", "f2"):
        await cluster.submit(name, **half, **(options if name == "x" else {}))
        await cluster.settle()
    assert [(await cluster.session(one)).kernels[0].agent_id for one in ("x", "f1", "y", "f2")] == [
        "a1", "a1", "a2", "a2",
    ]  # fmt: skip
    for name in ("f1", "f2"):
        await cluster.stop(name)
    await cluster.settle()
    await cluster.submit("big", **FOUR)


async def test_a_migratable_session_moves_so_that_a_fragmented_one_fits(cluster: OrchestratedCluster) -> None:
    await fragmented(cluster, migratable=True)
    # It wants the room that the other one moves to.
    await cluster.settle()
    await cluster.submit("small", slots={"cpu": 2000}, session_type=SessionType.BATCH)
    await cluster.settle()
    x, big = await cluster.session("x"), await cluster.session("big")
    assert (x.status, x.kernels[0].agent_id, x.kernels[0].attempt) == ("running", "a2", 2)
    assert (big.status, big.kernels[0].agent_id) == ("running", "a1")
    assert (await cluster.status("y"), await cluster.status("small")) == ("running", "pending")
    [receipt] = x.evictions
    assert (receipt.action, receipt.for_session, receipt.whole) == ("consolidate", "big", True)
    [line] = [one for one in await cluster.history("x") if one.change.code == "moved"]
    assert "make room for session big; these start again on other agents" in line.change.detail
    # At most once an hour.
    await cluster.stop("big")
    await cluster.stop("small")
    await cluster.settle()
    assert len((await cluster.session("x")).evictions) == 1


async def test_a_session_that_moves_keeps_its_place_from_others_also_over_a_change_of_the_manager(
    cluster: OrchestratedCluster,
) -> None:
    await fragmented(cluster, migratable=True)
    agent = cluster.agents.all[A1]
    agent.script.stubborn = True
    await cluster.settle()
    assert (await cluster.status("x"), await cluster.status("big")) == ("terminating", "pending")
    await cluster.submit("thief", slots={"cpu": 2000}, session_type=SessionType.BATCH)
    await cluster.pass_time(2)
    await cluster.fail_over()
    await cluster.pass_time(2)
    assert await cluster.status("thief") == "pending"
    await agent.ends("x.0", 143)
    await cluster.pass_time(3)
    assert [await cluster.status(one) for one in ("x", "big", "thief")] == ["running", "running", "pending"]
    assert (await cluster.session("x")).kernels[0].agent_id == "a2"


async def test_nothing_moves_that_was_not_said_to_be_migratable(cluster: OrchestratedCluster) -> None:
    await fragmented(cluster)
    await cluster.pass_time(5)
    assert [await cluster.status(one) for one in ("x", "y", "big")] == ["running", "running", "pending"]


async def test_a_move_is_withdrawn_if_the_session_that_it_is_for_is_gone(cluster: OrchestratedCluster) -> None:
    await fragmented(cluster, migratable=True)
    await evicted_without_notice(cluster, "x")
    await cluster.stop("big")
    await cluster.settle()
    x = await cluster.session("x")
    assert (x.status, x.kernels[0].agent_id, x.kernels[0].attempt, x.evictions) == ("running", "a1", 1, ())
    # Nothing is kept for it where it was to go.
    await cluster.submit("small", slots={"cpu": 2000}, session_type=SessionType.BATCH)
    await cluster.submit("other", slots={"cpu": 2000}, session_type=SessionType.BATCH)
    await cluster.settle()
    assert (await cluster.status("small"), await cluster.status("other")) == ("running", "running")
