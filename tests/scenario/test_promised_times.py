"""Times that are promised, on 64 agents with 8 devices each: bookings, loans, and shares that settle."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, QueueName
from sokovan.domain.session import SessionType
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.testing.acting_agents import ActingAgent
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP

pytestmark = pytest.mark.slow  # many cycles through the store per test

AGENTS, DEVICES = 64, 8
HALF = AGENTS * DEVICES // 2
WHOLE_AGENT: dict[str, Any] = {"slots": {"cuda.device": DEVICES}, "session_type": SessionType.BATCH}
EVICTING = ScalingGroup(
    name=DEFAULT_GROUP,
    scheduler_opts={
        "actions": ["enqueue", "allocate", "preempt", "reclaim", "backfill"],
        "queue_policy": "capacity",
    },
)
STEP_S = 30
# Rounds take virtual time while they wait for the store, more of it on a slow machine: this is plenty.
ROUNDS_S = 10


def queue(name: str, **more: Any) -> Queue:
    """A queue that deserves half of the cluster."""
    return Queue(QueueName(name), deserved=SlotLimits({"cuda.device": HALF}), **more)


async def fleet(cluster: OrchestratedCluster, *queues: Queue) -> None:
    await cluster.stored.put(EVICTING, *queues)
    for number in range(AGENTS):
        await cluster.agent(f"a{number:02}", slots={"cuda.device": DEVICES})


async def test_reclaim_between_two_queues_settles_and_takes_nothing_back_in_ten_minutes(
    cluster: OrchestratedCluster,
) -> None:
    await fleet(cluster, queue("one", min_runtime_s=0), queue("two", min_runtime_s=0))
    for name in ("one", "two"):
        for number in range(8):
            await cluster.submit(f"{name}-{number}", queue=QueueName(name), kernels=8, **WHOLE_AGENT)
        await cluster.settle()
    names = [f"{name}-{number}" for name in ("one", "two") for number in range(8)]
    await cluster.pass_time(600, step_s=STEP_S)
    running = [name for name in names if await cluster.status(name) == "running"]
    assert sorted(name[:3] for name in running) == ["one"] * 4 + ["two"] * 4
    receipts = [one for name in names for one in (await cluster.session(name)).evictions]
    assert [(one.action, one.kernels) for one in receipts] == [("reclaim", 8)] * 4


async def test_a_booking_begins_in_the_first_cycle_of_its_time_whoever_waits_longer(
    cluster: OrchestratedCluster,
) -> None:
    await fleet(cluster, Queue(QueueName("default")))
    from_ms = cluster.clock.now_ms() + 300_000
    booked = tuple(f"a{number:02}" for number in range(8))
    await cluster.stored.put(Booking("demo", from_ms, from_ms + 3_600_000, agents=booked, queues=("default",)))
    await cluster.submit("rest", kernels=AGENTS - 8, preemptible=False, **WHOLE_AGENT)
    await cluster.settle()
    # It ends before the booking begins, and may run on its agents until then.
    await cluster.submit("brief", kernels=8, time_limit_s=120, preemptible=False, **WHOLE_AGENT)
    await cluster.settle()
    await cluster.submit("longer", kernels=8, priority=5, **WHOLE_AGENT)
    await cluster.settle()
    assert [await cluster.status(name) for name in ("brief", "rest", "longer")] == ["running", "running", "pending"]
    await cluster.submit("inside", kernels=8, booking="demo", **WHOLE_AGENT)
    await cluster.pass_time(270, step_s=STEP_S)
    assert await cluster.status("brief") == "terminated"
    assert [await cluster.status(name) for name in ("inside", "longer")] == ["pending", "pending"]
    await cluster.pass_time(2 * STEP_S, step_s=STEP_S)
    inside = await cluster.session("inside")
    assert {str(one.agent_id) for one in inside.kernels} == set(booked)
    assert inside.scheduled_ms is not None
    assert 0 <= inside.scheduled_ms - from_ms < STEP_S * 1000
    assert await cluster.status("longer") == "pending"


async def test_a_recall_is_over_within_the_time_of_its_lender_also_if_the_guest_uses_its_grace(
    cluster: OrchestratedCluster,
) -> None:
    return_s, devices = 60, {"cuda.device": HALF}
    lender = queue("lender", guarantee=ResourceSlot(devices), return_s=return_s)
    await fleet(cluster, lender, queue("borrower", capability=SlotLimits(devices)))
    many: dict[str, Any] = {**WHOLE_AGENT, "kernels": AGENTS // 2, "queue": QueueName("borrower")}
    await cluster.submit("own", **many)
    await cluster.submit("slow", borrow=True, stop_grace_s=return_s + 1, **many)
    await cluster.submit("guest", borrow=True, stop_grace_s=return_s, **many)
    await cluster.settle()
    assert [await cluster.status(name) for name in ("own", "slow", "guest")] == ["running", "pending", "running"]
    for agent in cluster.agents.all.values():
        agent.script.stubborn = True
    await cluster.submit("host", **{**many, "queue": QueueName("lender")})
    await cluster.settle()
    guest = await cluster.session("guest")
    [recall] = guest.evictions
    grace_s = (recall.evict_at_ms - cluster.clock.now_ms()) / 1000
    await cluster.pass_time(grace_s - ROUNDS_S, step_s=STEP_S / 2)
    assert await cluster.status("host") == "pending"
    for kernel in guest.kernels:
        await cluster.agents.all[AgentId(str(kernel.agent_id))].ends(str(kernel.kernel_id), 137)
    await cluster.settle()
    [recall] = (await cluster.session("guest")).evictions
    assert recall.ended_ms is not None
    assert recall.ended_ms - recall.at_ms <= return_s * 1000
    assert [await cluster.status(name) for name in ("own", "host", "guest")] == ["running", "running", "pending"]


async def test_a_lender_that_needs_its_room_sooner_than_it_did_at_the_start_of_a_loan_has_it_sooner(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    graces: list[float] = []

    def noted(_agent: ActingAgent, _key: object, grace_s: float) -> None:
        graces.append(grace_s)

    def lender(return_s: int) -> Queue:
        guarantee = ResourceSlot({"cpu": 4000})
        return Queue(QueueName("lender"), deserved=SlotLimits(guarantee), guarantee=guarantee, return_s=return_s)

    borrower = Queue(QueueName("borrower"), capability=SlotLimits({"cpu": 4000}))
    await cluster.stored.put(EVICTING, lender(60), borrower)
    for name in ("a1", "a2"):
        await cluster.agent(name, slots={"cpu": 4000})
    one: dict[str, Any] = {"slots": {"cpu": 4000}, "session_type": SessionType.BATCH}
    await cluster.submit("own", queue=QueueName("borrower"), **one)
    await cluster.submit("guest", queue=QueueName("borrower"), borrow=True, stop_grace_s=60, **one)
    await cluster.settle()
    monkeypatch.setattr(ActingAgent, "_stop_kernel", noted)
    await cluster.stored.put(lender(20))
    await cluster.submit("host", queue=QueueName("lender"), **one)
    await cluster.settle()
    [recall] = (await cluster.session("guest")).evictions
    assert (recall.rule, recall.evict_at_ms - recall.at_ms) == ("loan", 20_000)
    assert set(graces) == {20.0}
