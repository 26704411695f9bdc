"""The life of sessions under a coordinator, from submission to the last slot freed."""

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.records import SessionResult
from sokovan.domain.session import EndPolicy, SessionType
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP
from tests.quick import sampled

pytestmark = pytest.mark.slow

ONCE = RetryPolicy(attempts=1)

STATES = ("pending", "scheduled", "preparing", "pulling", "prepared", "creating", "running", "terminating")
FOUR_CPUS = {"cpu": 4000, "mem": 8 << 30}


async def test_one_round_takes_a_session_from_waiting_to_a_request_for_its_kernel(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    agent.script.slow = True
    await cluster.submit("s")
    await cluster.tick()
    assert await cluster.status("s") == "creating"
    assert agent.running() == ["s.0"]
    await agent.begin("s.0")
    await cluster.tick()
    assert await cluster.status("s") == "running"


async def test_a_batch_session_ends_with_the_result_of_its_work(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("good", session_type=SessionType.BATCH)
    await cluster.submit("bad", session_type=SessionType.BATCH)
    await cluster.settle()
    await agent.ends("good.0", 0)
    await agent.ends("bad.0", 3)
    await cluster.settle()
    good, bad = await cluster.session("good"), await cluster.session("bad")
    assert (good.status.value, good.result, good.cause) == ("terminated", SessionResult.SUCCESS, "completed")
    assert (bad.status.value, bad.result, bad.cause) == ("terminated", SessionResult.FAILURE, "kernel-failed")
    assert bad.cause_detail == "kernel 0 ended with code 3"
    assert bad.kernels[0].exit_code == 3
    assert await cluster.used("a1") == {}


async def test_every_step_of_a_slow_start_is_on_record(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.pulls = {"big"}
    agent.script.slow = True
    await cluster.submit("s", image="big")
    await cluster.settle()
    assert await cluster.status("s") == "pulling"
    await agent.pulled("big")
    await cluster.settle()
    await agent.begin("s.0")
    await cluster.settle()
    await cluster.stop("s")
    await cluster.settle()
    moves = [entry.after for entry in await cluster.history("s") if entry.before != entry.after]
    assert moves == [
        "pending", "scheduled", "preparing", "pulling", "prepared", "creating", "running", "terminating", "terminated",
    ]  # fmt: skip


async def test_an_agent_that_does_not_answer_is_asked_again_until_it_does(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.faults["prepare"] = Fault.REQUEST_LOST
    await cluster.submit("s")
    await cluster.settle()
    assert await cluster.status("s") == "preparing"
    await cluster.pass_time(10)
    assert "agent-unreachable" in await cluster.codes("s")
    agent.faults.clear()
    await cluster.pass_time(10)
    assert await cluster.status("s") == "running"


async def test_an_image_that_cannot_be_had_ends_the_session_with_the_agents_words(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    agent.script.broken = {"nonsense": "no such image"}
    await cluster.submit("s", retry=ONCE, image="nonsense")
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", "image-unavailable")
    assert "no such image" in (session.cause_detail or "")
    assert agent.requests["create"] == 0
    assert await cluster.used("a1") == {}


async def test_a_pull_that_fails_later_ends_the_waiting_sessions_and_no_later_ones(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    agent.script.pulls = {"big"}
    await cluster.submit("first", retry=ONCE, image="big")
    await cluster.settle()
    await agent.pulled("big", problem="disk full")
    await cluster.settle()
    assert await cluster.status("first") == "terminated"
    await cluster.submit("second", retry=ONCE, image="big")
    await cluster.settle()
    assert await cluster.status("second") == "running"


async def test_an_image_is_asked_for_once_however_many_kernels_want_it(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    for number in range(6):
        await cluster.submit(f"s{number}")
    await cluster.settle()
    assert agent.requests["prepare"] == 1
    assert len(agent.running()) == 6


async def test_a_refused_creation_ends_the_session_with_the_reason(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.start_problem = "the sandbox is broken"
    await cluster.submit("s", retry=ONCE)
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", "creation-refused")
    assert "the sandbox is broken" in (session.cause_detail or "")
    assert await cluster.used("a1") == {}


@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.ANSWER_LOST])
async def test_a_creation_that_is_lost_on_the_way_happens_once_all_the_same(
    cluster: OrchestratedCluster, fault: Fault
) -> None:
    agent = await cluster.agent("a1")
    agent.faults["create"] = fault
    await cluster.submit("s")
    await cluster.settle()
    agent.faults.clear()
    await cluster.pass_time(20)
    assert await cluster.status("s") == "running"
    assert sum(agent.started.values()) == 1


@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.ANSWER_LOST])
async def test_a_stop_that_is_lost_on_the_way_frees_nothing_before_there_is_a_proof(
    cluster: OrchestratedCluster, fault: Fault
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.faults["stop"] = fault
    await cluster.stop("s")
    await cluster.settle()
    assert await cluster.status("s") == "terminating"
    assert await cluster.used("a1") == {"cpu": 1000, "mem": 1 << 30}
    agent.faults.clear()
    await cluster.pass_time(10)
    assert await cluster.status("s") == "terminated"
    assert await cluster.used("a1") == {}


async def test_a_stopped_kernel_leaves_the_code_that_its_agent_saw(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s", session_type=SessionType.BATCH)
    await cluster.settle()
    await cluster.stop("s")
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.kernels[0].exit_code, session.result) == (143, SessionResult.FAILURE)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("state", sampled(STATES, every=3))
async def test_a_session_can_be_ended_in_every_state(cluster: OrchestratedCluster, state: str, forced: bool) -> None:
    agent = await _brought_to(cluster, state)
    assert await cluster.status("s") == state
    await cluster.stop("s", forced=forced)
    for one in cluster.agents.all.values():
        one.faults.clear()
        one.script.stubborn = False
        if state == "creating":
            await one.begin("s.0")
    await cluster.pass_time(12)
    session = await cluster.session("s")
    assert session.status.value == ("cancelled" if state == "pending" else "terminated")
    assert all(kernel.status.value in {"terminated", "cancelled"} for kernel in session.kernels)
    if agent:
        assert await cluster.used("a1") == {}


async def _brought_to(cluster: OrchestratedCluster, state: str) -> bool:
    """A session `s` in this state, and whether there is an agent."""
    if state == "pending":
        await cluster.submit("s")
        await cluster.settle()
        return False
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    if state in {"scheduled", "prepared"}:
        # These states are not visible from outside: the test writes them to the store.
        await cluster.stored.place("s", "a1")
        if state == "prepared":
            await cluster.stored.move("s", KernelTrigger.IMAGE_READY)
        return True
    if state == "preparing":
        agent.faults["prepare"] = Fault.REQUEST_LOST
    agent.script.pulls = {"python"} if state == "pulling" else set()
    agent.script.slow = state == "creating"
    agent.script.stubborn = state == "terminating"
    await cluster.settle()
    if state == "terminating":
        await cluster.stop("s")
        await cluster.settle()
    return True


async def test_a_forced_end_is_seen_at_once_and_frees_nothing_by_itself(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.faults["stop"] = Fault.REQUEST_LOST
    await cluster.stop("s", forced=True)
    assert await cluster.status("s") == "terminated"
    await cluster.settle()
    assert await cluster.used("a1") == {"cpu": 1000, "mem": 1 << 30}
    agent.faults.clear()
    await cluster.pass_time(5)
    assert await cluster.used("a1") == {}
    assert agent.running() == []


async def test_force_does_not_wait_for_the_grace_of_an_earlier_stop(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.stubborn = True
    await cluster.submit("s", stop_grace_s=3600)
    await cluster.settle()
    await cluster.stop("s")
    await cluster.settle()
    assert agent.running() == ["s.0"]
    await cluster.stop("s", forced=True)
    await cluster.settle()
    assert agent.running() == []
    assert await cluster.used("a1") == {}


async def test_a_gang_is_asked_for_when_its_last_image_is_there(cluster: OrchestratedCluster) -> None:
    first, second = await cluster.agent("a1", slots=FOUR_CPUS), await cluster.agent("a2", slots=FOUR_CPUS)
    second.script.pulls = {"python"}
    await cluster.submit("gang", kernels=2, slots=FOUR_CPUS)
    await cluster.settle()
    assert first.running() == []
    await cluster.pass_time(90)  # longer than a kernel may be PREPARED by itself
    await second.pulled("python")
    await cluster.settle()
    assert first.running() + second.running() in (["gang.0", "gang.1"], ["gang.1", "gang.0"])
    assert await cluster.status("gang") == "running"


async def test_one_failing_kernel_ends_its_gang_and_stops_the_others(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("gang", kernels=3, ends_with=EndPolicy.ALL)
    await cluster.settle()
    await agent.ends("gang.1", 7)
    await cluster.settle()
    session = await cluster.session("gang")
    assert (session.status.value, session.cause, session.result) == (
        "terminated", "kernel-failed", SessionResult.FAILURE,
    )  # fmt: skip
    assert [kernel.exit_code for kernel in session.kernels] == [143, 7, 143]
    assert await cluster.used("a1") == {}


async def test_a_session_that_ends_with_all_waits_for_the_last_and_keeps_what_it_holds(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("sweep", kernels=2, ends_with=EndPolicy.ALL)
    await cluster.settle()
    await agent.ends("sweep.0", 0)
    await cluster.settle()
    session = await cluster.session("sweep")
    assert [kernel.status.value for kernel in session.kernels] == ["running", "running"]
    assert (await cluster.codes("sweep")).count("kernels-ended") == 1
    await agent.ends("sweep.1", 0)
    await cluster.settle()
    session = await cluster.session("sweep")
    assert (session.status.value, session.result) == ("terminated", SessionResult.SUCCESS)


async def test_a_session_that_ends_with_its_main_kernel_stops_the_rest(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s", kernels=2, ends_with=EndPolicy.MAIN)
    await cluster.settle()
    await agent.ends("s.1", 0)
    await cluster.settle()
    assert await cluster.status("s") == "running"
    await agent.ends("s.0", 0)
    await cluster.settle()
    assert (await cluster.session("s")).result is SessionResult.SUCCESS


async def test_tolerated_failures_do_not_end_a_session_before_its_main_kernel_does(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s", kernels=2, ends_with=EndPolicy.MAIN, tolerates_failures=True)
    await cluster.settle()
    await agent.ends("s.1", 9)
    await cluster.settle()
    assert await cluster.status("s") == "running"
    await agent.ends("s.0", 0)
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.result, [kernel.exit_code for kernel in session.kernels]) == (SessionResult.SUCCESS, [0, 9])


async def test_a_quick_kernel_of_a_session_that_goes_on_counts_as_begun(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.exits = lambda launch: 0 if launch.kernel_id.endswith(".0") else None
    await cluster.submit("s", kernels=2, ends_with=EndPolicy.ALL)
    await cluster.settle()
    assert await cluster.status("s") == "running"
    await cluster.pass_time(5)
    assert await cluster.status("s") == "running"


async def test_an_elastic_session_grows_while_it_runs(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.submit("s", kernels=2, slots=FOUR_CPUS, min_kernels=1, ends_with=EndPolicy.ALL)
    await cluster.settle()
    session = await cluster.session("s")
    assert [kernel.status.value for kernel in session.kernels] == ["running", "pending"]
    later = await cluster.agent("a2", slots=FOUR_CPUS)
    await cluster.settle()
    session = await cluster.session("s")
    assert [kernel.status.value for kernel in session.kernels] == ["running", "running"]
    assert len(later.running()) == 1
    await cluster.stop("s")
    await cluster.settle()
    assert await cluster.status("s") == "terminated"


async def test_kernels_that_never_got_a_place_leave_with_their_session(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.submit("s", kernels=2, slots=FOUR_CPUS, min_kernels=1)
    await cluster.settle()
    await agent.ends("s.0", 0)
    await cluster.settle()
    session = await cluster.session("s")
    assert [kernel.status.value for kernel in session.kernels] == ["terminated", "cancelled"]
    assert session.status.value == "terminated"


async def test_a_session_pending_for_too_long_is_withdrawn(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(ScalingGroup(name=DEFAULT_GROUP, pending_timeout_s=30))
    await cluster.submit("s")
    await cluster.pass_time(29)
    assert await cluster.status("s") == "pending"
    await cluster.pass_time(2)
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("cancelled", "pending-timeout")


async def test_a_session_runs_no_longer_than_it_may(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s", time_limit_s=20)
    await cluster.settle()
    await cluster.pass_time(19)
    assert await cluster.status("s") == "running"
    await cluster.pass_time(3)
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", "time-limit")


async def test_a_start_that_never_comes_is_given_up_at_its_deadline(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.slow = True
    await cluster.submit("s", retry=ONCE)
    await cluster.settle()
    await cluster.pass_time(605, step_s=5)
    session = await cluster.session("s")
    assert session.cause == "creating-timeout"
    assert session.status.value in {"terminating", "terminated"}


async def test_an_end_that_does_not_come_ends_for_the_user_only(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.faults["stop"] = Fault.REQUEST_LOST
    await cluster.submit("s")
    await cluster.settle()
    await cluster.stop("s")
    await cluster.pass_time(610, step_s=5)
    assert await cluster.status("s") == "terminated"
    assert await cluster.used("a1") == {"cpu": 1000, "mem": 1 << 30}
    lines = await cluster.history("s", kernels=True)
    assert [entry.trigger for entry in lines if entry.trigger == "overdue"] == ["overdue"] * 2
    agent.faults.clear()
    await cluster.pass_time(31)
    assert await cluster.used("a1") == {}


async def test_a_session_starts_when_the_one_it_depends_on_has_ended_well(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    assert await cluster.status("second") == "pending"
    await agent.ends("first.0", 0)
    await cluster.settle()
    assert await cluster.status("second") == "running"


async def test_a_session_whose_dependency_failed_is_withdrawn_and_so_are_its_own_dependents(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.submit("third", dependencies=(SessionId("second"),))
    await cluster.settle()
    await agent.ends("first.0", 1)
    await cluster.settle()
    for name in ("second", "third"):
        session = await cluster.session(name)
        assert (session.status.value, session.cause) == ("cancelled", "dependency-failed")


async def test_a_session_that_depends_on_one_which_failed_long_ago_is_withdrawn_at_once(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.settle()
    await agent.ends("first.0", 1)
    await cluster.settle()
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    assert (await cluster.session("second")).cause == "dependency-failed"


async def test_a_session_that_asked_to_start_later_starts_when_its_time_has_come(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.agent("a1")
    at = cluster.clock.now_ms() + 4_500
    await cluster.submit("s", session_type=SessionType.BATCH, starts_at_ms=at)
    await cluster.settle()
    assert await cluster.status("s") == "pending"
    due_s = cluster.coordinator.next_due_s()
    assert due_s is not None
    assert due_s <= 4.5
    await cluster.pass_time(4)
    assert await cluster.status("s") == "pending"
    await cluster.pass_time(1)
    assert await cluster.status("s") == "running"


async def test_waiting_sessions_get_a_verdict_once_per_reason(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.submit("first", slots=FOUR_CPUS)
    await cluster.submit("second", slots=FOUR_CPUS)
    await cluster.settle()
    await cluster.pass_time(20)
    stored = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("second")))
    assert stored is not None
    assert stored.code == "NOT_ENOUGH_FREE"
    assert (await cluster.codes("second")).count("NOT_ENOUGH_FREE") == 1
    await cluster.stop("first")
    await cluster.settle()
    assert await cluster.status("second") == "running"
    assert await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("second"))) is None


async def test_a_cancelled_session_leaves_no_verdict_behind(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    await cluster.settle()
    assert await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("s"))) is not None
    await cluster.stop("s")
    await cluster.settle()
    assert await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("s"))) is None


async def test_devices_go_to_the_kernels_that_asked_for_them(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s", kernels=2, slots={"cpu": 1000, "cuda.device": 2})
    await cluster.settle()
    seen = [acted.launch.devices for acted in agent.machine.values()]
    assert sorted(device for devices in seen for device in devices["cuda.device"]) == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert ResourceSlot(await cluster.used("a1"))["cuda.device"] == 4
