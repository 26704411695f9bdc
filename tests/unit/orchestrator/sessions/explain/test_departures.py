"""Sessions on booked agents, as the store has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.eviction import BOOKING_LEAD_MS
from sokovan.domain.session import EndPolicy, SessionType
from sokovan.orchestrator.sessions.explain.departures import (
    booked_agents,
    departures_of,
    evicted_sessions,
    leaving_sessions,
    uses_of,
    workload_on_agents,
)
from sokovan.orchestrator.topology_changes import topology_state
from sokovan.scheduling.plan import Eviction, SchedulingPlan
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster

HOUR_MS, GRACE_S = 3_600_000, 10
AGENTS = frozenset({"a"})


@pytest.fixture
async def cluster() -> AsyncIterator[StoredCluster]:
    """Two agents; a session runs on both of them, another one on the second."""
    async with StoredCluster.open() as cluster:
        for name in ("a", "b"):
            await cluster.agent(name)
        for name, places in (("wide", ("b", "a")), ("other", ("b",))):
            await cluster.submit(
                name, kernels=len(places), min_kernels=1, session_type=SessionType.BATCH, stop_grace_s=GRACE_S
            )
            await cluster.place(name, *places)
            await cluster.start(name)
        yield cluster


async def now(cluster: StoredCluster) -> int:
    async def work(unit: Any) -> int:
        return int(unit.now_ms)

    return await cluster.store.read(work)


async def booking(cluster: StoredCluster, **more: Any) -> Booking:
    """The first agent, an hour from now."""
    now_ms = await now(cluster)
    given: dict[str, Any] = {"from_ms": now_ms + HOUR_MS, "to_ms": now_ms + 2 * HOUR_MS, "agents": ("a",)}
    return Booking("demo", **{**given, **more})


async def test_a_stored_session_is_as_the_scheduler_sees_it(cluster: StoredCluster) -> None:
    await cluster.snapshots.refresh()
    seen = {one.session_id: one for one in (await cluster.snapshots.snapshot(DEFAULT_GROUP)).sessions}
    for name in ("wide", "other"):
        stored = workload_on_agents(await cluster.session(name))
        assert stored == replace(seen[SessionId(name)], submitted=stored.submitted)
    first = replace((await cluster.session("wide")).spec, ends_with=EndPolicy.MAIN)
    led = workload_on_agents(replace(await cluster.session("wide"), spec=first))
    assert [one.leads for one in led.kernels] == [True, False]


async def test_uses_end_by_an_eviction_only_for_the_agents_that_are_asked_for(cluster: StoredCluster) -> None:
    wide, now_ms = await cluster.session("wide"), await now(cluster)
    [use] = uses_of(wide, AGENTS, now_ms)
    assert (use.agent, use.ends_ms, use.evicted) == ("a", now_ms + GRACE_S * 1000 + BOOKING_LEAD_MS, True)
    assert {(one.agent, one.ends_ms) for one in uses_of(wide, None, now_ms)} == {("a", None), ("b", None)}
    await cluster.stop("wide")
    await cluster.submit("pending")
    assert uses_of(await cluster.session("pending"), None, now_ms) == []


async def test_those_that_leave_are_told_with_the_time_of_their_notice(cluster: StoredCluster) -> None:
    wanted = await booking(cluster)
    [leaves] = await cluster.store.read(lambda unit: leaving_sessions(unit, wanted, AGENTS))
    assert leaves.leaves is not None
    assert (leaves.session.session_id, len(leaves.leaves.kernels)) == ("wide", 1)
    assert leaves.leaves.ends_ms == wanted.from_ms - BOOKING_LEAD_MS
    await cluster.put(wanted)
    wide, other = await cluster.session("wide"), await cluster.session("other")
    [before_it] = await cluster.store.read(lambda unit: departures_of(unit, wide))
    assert before_it.booking.name == "demo"
    assert not await cluster.store.read(lambda unit: departures_of(unit, other))


async def test_receipts_are_those_of_this_booking_and_of_no_earlier_one_of_its_name(cluster: StoredCluster) -> None:
    soon = await booking(cluster, from_ms=await now(cluster) + GRACE_S * 1000)
    await cluster.put(soon)
    eviction = Eviction(
        KernelId("wide.1"), SessionId("wide"), AgentId("a"), SessionId(""), "booking",
        notice_ms=GRACE_S * 1000, for_booking="demo",
    )  # fmt: skip
    await cluster.snapshots.refresh()
    assert (await cluster.snapshots.record_plan(DEFAULT_GROUP, SchedulingPlan(evictions=(eviction,)))).spared == {}
    [found] = await cluster.store.read(lambda unit: evicted_sessions(unit, soon))
    assert found.receipt is not None
    assert (found.session.session_id, found.receipt.kernels) == ("wide", 1)
    later = replace(soon, from_ms=soon.from_ms + HOUR_MS)
    assert await cluster.store.read(lambda unit: evicted_sessions(unit, later)) == []
    other = replace(soon, name="dem_")
    assert await cluster.store.read(lambda unit: evicted_sessions(unit, other)) == []


async def test_a_booked_hypernode_has_all_agents_below_it(cluster: StoredCluster) -> None:
    state = await cluster.store.read(topology_state)
    known = replace(state, hypernodes=(HyperNode("rack", 1, ("a", "b")),))
    wanted = await booking(cluster, agents=(), hypernode="rack")
    assert booked_agents(wanted, known) == ("a", "b")
    assert booked_agents(wanted, state) == ()
    with pytest.raises(ObjectNotFound, match="rack"):
        booked_agents(wanted, state, required=True)
    with pytest.raises(ObjectNotFound, match="nobody"):
        booked_agents(await booking(cluster, agents=("nobody",)), state, required=True)
