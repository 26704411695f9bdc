"""Nothing lasts longer than it may, by the store's time."""

from functools import partial
from itertools import pairwise

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, User
from sokovan.domain.records import KernelMove, KernelRecord, SessionRecord
from sokovan.domain.session import SessionType
from sokovan.domain.slots import NO_SLOTS, SlotLimits
from sokovan.orchestrator.sessions.handlers.deadlines import _timed
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import ONE_CPU, work_spec
from sokovan.testing.stored_cluster import BY_COORDINATOR, DEFAULT_GROUP

ONCE = RetryPolicy(attempts=1)


async def verdict(cluster: OrchestratedCluster, name: str) -> str | None:
    stored = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId(name)))
    return None if stored is None else stored.code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "seconds", "cause"),
    [
        ((), 60, "scheduled-timeout"),
        ((KernelTrigger.PREPARATION_STARTED,), 120, "preparing-timeout"),
        ((KernelTrigger.IMAGE_READY,), 60, "prepared-timeout"),
    ],
)
async def test_a_state_that_lasts_too_long_ends_the_session(
    cluster: OrchestratedCluster, steps: tuple[KernelTrigger, ...], seconds: int, cause: str
) -> None:
    await cluster.agent("a1")
    await cluster.submit("s", retry=ONCE)
    await cluster.stored.place("s", "a1")
    for step in steps:
        await cluster.stored.move("s", step)
    # Without the handlers that would move it on.
    coordinator = cluster.coordinator
    coordinator.handlers = tuple(
        handler for handler in coordinator.handlers if handler.name not in {"prepare", "start"}
    )
    await cluster.pass_time(seconds - 5, step_s=5)
    assert (await cluster.session("s")).cause is None
    await cluster.pass_time(10, step_s=5)
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", cause)


@pytest.mark.slow
async def test_a_long_pull_is_given_an_hour(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.pulls = {"big"}
    await cluster.submit("s", retry=ONCE, image="big")
    await cluster.settle()
    await cluster.pass_time(3_500, step_s=500)
    assert await cluster.status("s") == "pulling"
    await cluster.pass_time(150, step_s=75)
    assert (await cluster.session("s")).cause == "pulling-timeout"


@pytest.mark.slow
async def test_only_the_groups_that_have_a_limit_withdraw_those_who_wait(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    await cluster.pass_time(100, step_s=10)
    assert await cluster.status("s") == "pending"
    await cluster.stored.put(ScalingGroup(name=DEFAULT_GROUP, pending_timeout_s=60))
    await cluster.pass_time(2)
    assert (await cluster.session("s")).cause == "pending-timeout"


@pytest.mark.slow
async def test_an_overdue_end_is_put_on_record_ever_more_rarely(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.stubborn = True
    agent.faults["stop"] = Fault.REQUEST_LOST
    await cluster.submit("s")
    await cluster.settle()
    await cluster.stop("s", forced=True)
    await cluster.pass_time(2_000, step_s=40)
    lines = [entry for entry in await cluster.history("s", kernels=True) if entry.trigger == "overdue"]
    gaps = [later.at_ms - earlier.at_ms for earlier, later in pairwise(lines)]
    assert len(lines) == 4
    assert gaps == sorted(gaps)


@pytest.mark.slow
async def test_termination_is_not_overdue_while_the_agent_is_lost(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.goes_silent()
    await cluster.pass_time(70)
    await cluster.stop("s")
    await cluster.pass_time(300, step_s=30)
    lines = [entry for entry in await cluster.history("s", kernels=True) if entry.trigger == "overdue"]
    assert lines == []


@pytest.mark.slow
async def test_an_end_is_late_only_after_the_grace_that_was_asked_for(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.stubborn = True
    await cluster.submit("s", stop_grace_s=1_800)
    await cluster.settle()
    await cluster.stop("s")
    await cluster.pass_time(1_840, step_s=40)
    assert await cluster.status("s") == "terminating"
    assert [one for one in await cluster.history("s", kernels=True) if one.trigger == "overdue"] == []
    await cluster.pass_time(80, step_s=40)
    assert len([one for one in await cluster.history("s", kernels=True) if one.trigger == "overdue"]) == 1
    await cluster.pass_time(520, step_s=40)
    session = await cluster.session("s")
    assert (session.status.value, session.goal) == ("terminated", Goal.FORCE)


@pytest.mark.slow
async def test_who_runs_and_would_grow_may_wait_for_that(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(ScalingGroup(name=DEFAULT_GROUP, pending_timeout_s=60))
    await cluster.agent("a1", slots={"cpu": 1000, "mem": 8 << 30})
    await cluster.submit("s", kernels=2, min_kernels=1)
    await cluster.submit("late")
    await cluster.pass_time(70, step_s=10)
    assert (await cluster.status("s"), await cluster.status("late")) == ("running", "cancelled")


@pytest.mark.slow
async def test_the_pending_time_out_counts_from_the_start_time(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(ScalingGroup(name=DEFAULT_GROUP, pending_timeout_s=30))
    starts_at_ms = cluster.clock.now_ms() + 100_000
    await cluster.submit("s", session_type=SessionType.BATCH, starts_at_ms=starts_at_ms)
    await cluster.pass_time(128, step_s=4)
    assert await cluster.status("s") == "pending"
    await cluster.pass_time(8, step_s=2)
    assert (await cluster.session("s")).cause == "pending-timeout"


@pytest.mark.slow
async def test_the_pending_time_out_counts_from_the_end_of_the_dependencies(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(ScalingGroup(name=DEFAULT_GROUP, pending_timeout_s=30))
    agent = await cluster.agent("a1", slots=ONE_CPU)
    await cluster.submit("first", session_type=SessionType.BATCH)
    await cluster.settle()
    await cluster.submit("s", slots={"cpu": 4000}, dependencies=(SessionId("first"),))
    await cluster.pass_time(100, step_s=4)
    assert await cluster.status("s") == "pending"
    await agent.ends("first.0", 0)
    await cluster.pass_time(28, step_s=2)
    assert await cluster.status("s") == "pending"
    await cluster.pass_time(4, step_s=2)
    assert (await cluster.session("s")).cause == "pending-timeout"


@pytest.mark.slow
async def test_the_pending_time_out_starts_anew_when_a_quota_has_held_the_session(cluster: OrchestratedCluster) -> None:
    large, small = (ResourcePolicy("quota", slots_max=SlotLimits({"cpu": amount})) for amount in (9000, 2500))
    await cluster.stored.put(large, Domain("default"), User("default", "default", policy="quota"))
    await cluster.stored.put(ScalingGroup(name=DEFAULT_GROUP, pending_timeout_s=30))
    agent = await cluster.agent("a1", slots={"cpu": 2000, "mem": 8 << 30})
    await cluster.submit("first")
    await cluster.settle()
    await cluster.submit("s", slots={"cpu": 2000})
    await cluster.pass_time(20, step_s=2)
    # The quota holds it, and the time-out does not count.
    await cluster.stored.put(small)
    await cluster.pass_time(60, step_s=4)
    assert (await verdict(cluster, "s"), await cluster.status("s")) == ("QUOTA_USER", "pending")
    await cluster.stored.put(large)
    await cluster.pass_time(28, step_s=2)
    assert (await verdict(cluster, "s"), await cluster.status("s")) == ("NOT_ENOUGH_FREE", "pending")
    await cluster.pass_time(4, step_s=2)
    assert (await cluster.session("s")).cause == "pending-timeout"
    assert len(agent.running()) == 1


@pytest.mark.slow
async def test_a_session_runs_no_longer_than_its_scaling_group_allows(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.submit("limited", time_limit_s=20)
    await cluster.settle()
    await cluster.pass_time(60, step_s=10)
    assert (await cluster.session("limited")).cause == "time-limit"
    assert await cluster.status("s") == "running"
    # The setting holds for sessions that run already.
    await cluster.stored.put(ScalingGroup(DEFAULT_GROUP, lifetime_max_s=90))
    await cluster.pass_time(20, step_s=10)
    assert await cluster.status("s") == "running"
    await cluster.pass_time(20, step_s=10)
    session = await cluster.session("s")
    assert session.cause == "lifetime-limit"
    assert session.cause_detail == "it ran for 1m30s, the most in scaling group default"


@pytest.mark.slow
async def test_a_session_whose_kernels_are_all_idle_ends_after_its_idle_timeout(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s", kernels=2, idle_timeout_s=60)
    await cluster.submit("other", kernels=1)
    await cluster.settle()

    async def idle(first_s: int | None, second_s: int | None) -> str:
        for key, acted in agent.machine.items():
            acted.idle_s = {"s.0": first_s, "s.1": second_s}.get(key.kernel_id, 1000)
        agent.look()
        await agent.beat()
        await cluster.pass_time(10, step_s=5)
        return await cluster.status("s")

    assert [await idle(59, 100), await idle(100, None), await idle(100, 0)] == ["running"] * 3
    await idle(61, 60)
    session = await cluster.session("s")
    assert session.cause == "idle-timeout"
    assert session.cause_detail == "it was idle for 1m: no shell, no command and no CPU use"
    assert await cluster.status("other") == "running"


@pytest.mark.slow
async def test_a_kernel_that_waits_for_room_does_not_keep_a_session_from_being_idle(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1", slots={"cpu": 1000})
    await cluster.submit("s", kernels=2, min_kernels=1, slots={"cpu": 1000}, idle_timeout_s=60)
    await cluster.settle()
    assert await cluster.status("s") == "running"
    for acted in agent.machine.values():
        acted.idle_s = 60
    agent.look()
    await agent.beat()
    await cluster.pass_time(10, step_s=5)
    assert (await cluster.session("s")).cause == "idle-timeout"


@pytest.mark.parametrize("first", [KernelStatus.PENDING, KernelStatus.SCHEDULED, KernelStatus.PREPARED])
def test_prepared_kernels_have_no_deadline_while_the_first_rank_waits(first: KernelStatus) -> None:
    statuses = (first, KernelStatus.PREPARED)
    kernels = tuple(
        KernelRecord(KernelId(f"s.{index}"), SessionId("s"), index, status, 1, NO_SLOTS, rank=index)
        for index, status in enumerate(statuses)
    )
    spec = work_spec("s", kernels=2, min_kernels=1)
    session = SessionRecord(SessionId("s"), spec, SessionStatus.PREPARED, 1, Goal.RUN, 0, kernels)
    assert (KernelStatus.PREPARED in _timed(session)) is (first is KernelStatus.PREPARED)


async def _moved(move: KernelMove, unit: UnitOfWork) -> None:
    await unit.sessions.move_kernels([move], BY_COORDINATOR)


@pytest.mark.slow
async def test_kernels_that_wait_for_the_slices_before_them_are_not_late(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s", kernels=3, retry=ONCE)
    await cluster.stored.place("s", "a1", "a1", "a1")
    # Another kernel is moved every 40 s, as by a coordinator that has much to do.
    coordinator = cluster.coordinator
    coordinator.handlers = tuple(
        handler for handler in coordinator.handlers if handler.name not in {"prepare", "start"}
    )
    for index in range(2):
        await cluster.pass_time(40, step_s=5)
        kernel = (await cluster.session("s")).kernels[index]
        move = KernelMove(kernel, KernelTrigger.PREPARATION_STARTED)
        await cluster.store.run(partial(_moved, move))
    await cluster.pass_time(40, step_s=5)
    assert (await cluster.session("s")).cause is None
    await cluster.pass_time(30, step_s=5)
    assert (await cluster.session("s")).cause == "scheduled-timeout"
