"""Reservations through the store: they hold room against lower work and yield it to higher work."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import SessionId
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow


async def waiting_gang(cluster: OrchestratedCluster, **options: str) -> None:
    """A gang that holds the idle agent a1, and waits for a kernel of a2 that does not end."""
    slow = await cluster.agent("a2", slots={"cpu": 4000})
    slow.script.stubborn = True
    await cluster.submit("old", slots={"cpu": 4000})
    await cluster.settle()
    await cluster.agent("a1", slots={"cpu": 4000})
    await cluster.stop("old")
    await cluster.submit("gang", kernels=2, slots={"cpu": 4000}, priority=5, **options)
    await cluster.settle()
    assert await cluster.status("gang") == "pending"


async def summary(cluster: OrchestratedCluster, name: str) -> str:
    """The stored sentence about a waiting session."""
    verdict = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId(name)))
    assert verdict is not None
    return f"{verdict.code}: {verdict.summary}"


async def test_a_waiting_reservation_yields_its_idle_part_to_work_of_higher_priority(
    cluster: OrchestratedCluster,
) -> None:
    await waiting_gang(cluster)
    assert await summary(cluster, "gang") == (
        "RESERVED: waits for room that is being released; 2 kernels have a reservation"
    )
    await cluster.submit("urgent", slots={"cpu": 1000}, priority=6)
    await cluster.settle()
    assert await cluster.status("urgent") == "running"
    assert (await cluster.session("urgent")).kernels[0].agent_id == "a1"
    assert (await summary(cluster, "gang")).endswith("best candidate a1 lacks cpu=1")


async def test_work_of_equal_or_lower_priority_stays_blocked_by_the_reservation(
    cluster: OrchestratedCluster,
) -> None:
    await waiting_gang(cluster)
    await cluster.submit("equal", slots={"cpu": 1000}, priority=5)
    await cluster.submit("lower", slots={"cpu": 1000})
    await cluster.settle()
    for name in ("equal", "lower"):
        assert await cluster.status(name) == "pending"
        assert await summary(cluster, name) == (
            "RESERVED_FOR_GANG: the room for cpu=1 on a1 is reserved for a session ahead"
        )


async def test_why_gives_the_name_of_the_holder(cluster: OrchestratedCluster) -> None:
    await waiting_gang(cluster, name="training")
    await cluster.submit("lower", slots={"cpu": 1000})
    await cluster.settle()
    found = await WhyService(cluster.store).why(SessionId("lower"))
    assert found.summary == "the room for cpu=1 on a1 is reserved for a session ahead"
    assert [one.detail for one in found.checks if one.name == "reserved-for"] == ["training (gang)"]
    hidden = await WhyService(cluster.store).why(SessionId("lower"), SessionFilter(user="somebody"))
    assert [one.detail for one in hidden.checks if one.name == "reserved-for"] == ["a session of another user"]
    assert "training" not in str(hidden)
    assert "gang" not in str(hidden).replace("RESERVED_FOR_GANG", "")
