"""The coordinator of sessions: leadership, cycles, due times, order of handlers."""

import pytest

from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners import turns
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import SessionRecord, SessionResult
from sokovan.domain.session import EndPolicy, SessionType
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.sessions import session_cache
from sokovan.orchestrator.sessions.context import CycleInput
from sokovan.orchestrator.sessions.handlers import schedule
from sokovan.orchestrator.sessions.session_cache import LARGE
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


@pytest.mark.slow
async def test_a_cycle_without_work_needs_no_other(cluster: OrchestratedCluster) -> None:
    assert not await cluster.tick()
    assert not await cluster.tick()


@pytest.mark.slow
async def test_a_follower_looks_after_an_eighth_of_the_lease(cluster: OrchestratedCluster) -> None:
    await cluster.tick()
    other = cluster.new_coordinator()
    assert not await other.tick()
    due_s = other.next_due_s()
    assert due_s is not None
    assert 1.2 < due_s < 1.3
    await other.close()


async def test_the_lease_is_renewed_beside_the_cycles_and_a_new_one_wakes_them(
    cluster: OrchestratedCluster,
) -> None:
    first, second = cluster.coordinator, cluster.new_coordinator()
    await first.tick()
    _, keep, _ = second.tasks()
    await keep.work()
    fences = [second.leadership.fence]
    await first.close()
    await cluster.hints.take(SESSIONS_HINT)
    await cluster.clock.advance(4)
    await keep.work()
    fences.append(second.leadership.fence)
    assert [fence is None for fence in fences] == [True, False]
    assert await cluster.hints.take(SESSIONS_HINT)
    await second.close()


@pytest.mark.slow
async def test_a_late_reply_wakes_the_next_cycle(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.stubborn = True
    await cluster.submit("s")
    await cluster.settle()
    agent.faults["stop"] = Fault.HANGS
    await cluster.stop("s")
    await cluster.tick()
    await cluster.hints.take(SESSIONS_HINT)
    await cluster.clock.advance(16)  # the request has run into its deadline
    assert await cluster.hints.take(SESSIONS_HINT)


@pytest.mark.slow
async def test_a_long_cycle_compares_everything(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.tick()
    assert cluster.telemetry.gauged("agents", status="alive") == 1
    await cluster.agent("a2")
    await cluster.tick()
    assert cluster.telemetry.gauged("agents", status="alive") == 1
    await cluster.clock.advance(10)
    await cluster.tick()
    assert cluster.telemetry.gauged("agents", status="alive") == 2


@pytest.mark.slow
async def test_a_store_that_is_set_back_by_another_leader_is_read_anew(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    first = cluster.coordinator
    await cluster.fail_over()
    await cluster.tick()
    await cluster.stop("s")
    await cluster.settle()
    await cluster.coordinator.close()
    cluster.coordinator = first
    await cluster.clock.advance(4)
    await cluster.submit("t")
    await cluster.settle()
    assert [await cluster.status("s"), await cluster.status("t")] == ["terminated", "running"]


@pytest.mark.slow
async def test_states_are_timed_and_ends_are_counted(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await cluster.pass_time(5)
    await agent.ends("s.0", 0)
    await cluster.settle()
    assert cluster.telemetry.observed("state_seconds", state="running")[0] >= 5
    assert cluster.telemetry.counted("sessions_ended_total", result="success") == 1
    assert cluster.telemetry.counted("placements_total") == 1
    assert cluster.telemetry.observed("cycle_seconds")
    assert cluster.telemetry.observed("decide_seconds")


@pytest.mark.slow
async def test_the_next_cycle_is_due_at_the_earliest_of_all_due_times(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.settle()
    coordinator = cluster.coordinator
    assert 0.5 < (coordinator.next_due_s() or 0) <= 1.0
    agent.faults["prepare"] = Fault.REQUEST_LOST
    await cluster.submit("s")
    await cluster.settle()
    assert (coordinator.next_due_s() or 0) <= 0.5


async def test_handlers_run_in_order(cluster: OrchestratedCluster) -> None:
    coordinator = cluster.coordinator
    assert [handler.name for handler in coordinator.handlers] == [
        "watch", "sweep", "terminate", "dependencies", "schedule", "prepare", "start",
    ]  # fmt: skip
    assert [handler.name for handler in coordinator.recheck_handlers] == ["watch", "terminate", "dependencies"]


@pytest.mark.slow
async def test_a_term_that_ends_leaves_nothing_behind(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.submit("second", dependencies=(SessionId("first"),))
    await cluster.settle()
    sweep = cluster.coordinator._sweep
    assert sweep.next_due_s() > 0
    await cluster.coordinator._clear()
    assert sweep.next_due_s() == 0
    await agent.ends("first.0", 1)
    await cluster.coordinator.close()
    await cluster.clock.advance(4)
    await cluster.settle()
    assert (await cluster.session("second")).cause == "dependency-failed"


class Busy:
    """A handler that works for a second, in which a small session is submitted."""

    name = "busy"

    def __init__(self, cluster: OrchestratedCluster) -> None:
        self._cluster = cluster

    def clear(self) -> None:
        """Nothing to reset."""

    async def handle(self, _cycle: CycleInput) -> bool:
        """Submit a session and let time pass."""
        await self._cluster.submit("small")
        await self._cluster.clock.advance(1)
        return False


class Looks:
    """A handler that notes the status of the small session."""

    name = "looks"

    def __init__(self, cluster: OrchestratedCluster) -> None:
        self._cluster = cluster
        self.seen: list[str] = []

    def clear(self) -> None:
        """Nothing to reset."""

    async def handle(self, _cycle: CycleInput) -> bool:
        """Note the status."""
        self.seen.append(await self._cluster.status("small"))
        return False


@pytest.mark.slow
@pytest.mark.parametrize(("size", "status"), [(LARGE + 1, "creating"), (LARGE, "pending")])
async def test_small_sessions_are_served_between_the_handlers_of_large_ones(
    cluster: OrchestratedCluster, size: int, status: str
) -> None:
    await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 40})
    await cluster.submit("gang", kernels=size)
    await cluster.settle()
    looks, handlers = Looks(cluster), cluster.coordinator.handlers
    cluster.coordinator.handlers = (Busy(cluster), looks, *handlers)
    await cluster.tick()
    cluster.coordinator.handlers = handlers
    assert looks.seen == [status]
    await cluster.settle()
    assert await cluster.status("small") == "running"


async def test_small_sessions_are_served_after_a_long_refresh(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 40})
    await cluster.submit("gang", kernels=LARGE + 1)
    await cluster.settle()
    reader, busy, looks = cluster.coordinator._reader, Busy(cluster), Looks(cluster)
    refresh, handlers = reader.refresh, cluster.coordinator.handlers

    async def long() -> None:
        await refresh()
        monkeypatch.undo()
        await busy.handle(CycleInput())

    monkeypatch.setattr(reader, "refresh", long)
    cluster.coordinator.handlers = (looks, *handlers)
    await cluster.tick()
    assert looks.seen == ["creating"]


async def test_cycles_follow_each_other_until_all_new_sessions_are_read(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (session_cache, schedule):
        monkeypatch.setattr(module, "READ_AT_ONCE", 2)
    names = [f"s{number}" for number in range(5)]
    await cluster.tick()
    for name in names:
        await cluster.submit(name)
    assert await cluster.tick()  # nothing can be placed, and more is to be read
    for name in names:
        await cluster.stop(name)
    cycles = 0
    while await cluster.tick():
        cycles += 1
        assert cycles < len(names)
    # What the scheduler has not read is not waited for, as none of it is pending.
    assert cluster.coordinator._scheduler.is_behind
    await cluster.agent("a1", slots={"cpu": 9000, "mem": 9 << 30})
    await cluster.submit("later")
    await cluster.settle()
    assert await cluster.status("later") == "running"
    assert not cluster.coordinator._scheduler.is_behind


@pytest.mark.slow
async def test_small_sessions_are_served_while_late_reports_of_large_ones_are_handled(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 40})
    await cluster.submit("gang", kernels=LARGE + 1)
    looks, handlers = Looks(cluster), cluster.coordinator.recheck_handlers
    cluster.coordinator.recheck_handlers = (Busy(cluster), looks, *handlers)
    await cluster.tick()
    cluster.coordinator.recheck_handlers = handlers
    assert looks.seen == ["creating"]
    await cluster.settle()
    assert [await cluster.status(name) for name in ("gang", "small")] == ["running", "running"]


@pytest.mark.slow
async def test_a_session_of_another_user_passes_an_array_that_moves_in_slices(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SMALL_SLICE", 8)
    agent = await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 40})
    agent.script.exits = lambda launch: None if launch.kernel_id == "other.0" else 0
    names = [f"array{number}" for number in range(LARGE + 16)]
    for name in names:
        await cluster.submit(name, owner=Owner(user="ada"), session_type=SessionType.BATCH)
    await cluster.tick()
    placed = [await cluster.status(name) for name in names].count("pending")
    assert placed == len(names) - 8
    await cluster.submit("other", owner=Owner(user="bob"))
    assert await cluster.tick()
    assert await cluster.status("other") in {"creating", "running"}
    assert [await cluster.status(name) for name in names].count("pending") >= len(names) - 24
    await cluster.settle(rounds_max=200)
    assert {await cluster.status(name) for name in names} == {"terminated"}
    assert await cluster.status("other") == "running"
    await cluster.stop("other")


@pytest.mark.slow
async def test_many_sessions_that_are_stopped_end_in_slices(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SMALL_SLICE", 8)
    await cluster.agent("a1", slots={"cpu": 20_000, "mem": 1 << 40})
    names = [f"s{number}" for number in range(40)]
    for name in names:
        await cluster.submit(name)
    await cluster.settle(rounds_max=200)
    for name in names:
        await cluster.stop(name)
    ended = 0
    while ended < len(names):
        await cluster.tick()
        before, ended = ended, sum([await cluster.status(one) in {"terminated", "cancelled"} for one in names])
        assert ended - before <= 4 * 8, "more than one slice of each handler"
    assert not await cluster.stored.store.read(lambda unit: unit.ledger.held(AgentId("a1")))


SLICED = 2 * LARGE


async def gang_of_slices(cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
    """A gang of five slices on one agent, not handled yet."""
    monkeypatch.setattr(turns, "SLICE", SLICED // 5)
    agent = await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 40})
    agent.script.exits = lambda launch: 3 if options.get("fails") == launch.kernel_id else options.get("exits")  # type: ignore[assignment,return-value]  # an exit code or None
    given = {name: value for name, value in options.items() if name not in {"exits", "fails"}}
    await cluster.submit("gang", kernels=SLICED, **given)


def counted(record: SessionRecord, *statuses: KernelStatus) -> int:
    return sum(kernel.status in statuses for kernel in record.kernels)


@pytest.mark.slow
async def test_a_gang_starts_and_stops_in_slices_and_small_sessions_pass_it(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gang_of_slices(cluster, monkeypatch)
    starting, steps = (KernelStatus.CREATING, KernelStatus.RUNNING), [0]
    while steps[-1] < SLICED:
        assert await cluster.tick() or steps[-1] > 0
        steps.append(counted(await cluster.stored.session("gang"), *starting))
        assert steps[-1] - steps[-2] <= SLICED // 5 + 1
        if len(steps) == 3:
            await cluster.submit("small")
        if len(steps) == 4:
            assert await cluster.status("small") in {"creating", "running"}
    await cluster.settle()
    assert [await cluster.status(name) for name in ("gang", "small")] == ["running", "running"]
    await cluster.stop("gang")
    await cluster.settle()
    assert await cluster.status("gang") == "terminated"


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(EndPolicy))
@pytest.mark.parametrize("fails", ["", f"gang.{SLICED - 1}"])
async def test_a_gang_whose_kernels_end_by_themselves_ends_in_slices_as_it_would_whole(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, policy: EndPolicy, fails: str
) -> None:
    tolerates = policy is EndPolicy.ALL
    await gang_of_slices(cluster, monkeypatch, exits=0, fails=fails, ends_with=policy, tolerates_failures=tolerates)
    await cluster.settle(rounds_max=200)
    record = await cluster.stored.session("gang")
    assert (record.status, counted(record, KernelStatus.TERMINATED)) == (SessionStatus.TERMINATED, SLICED)
    if policy is EndPolicy.ALL:
        assert record.result is (SessionResult.FAILURE if fails else SessionResult.SUCCESS)
        assert [kernel.exit_code for kernel in record.kernels] == [0] * (SLICED - 1) + [3 if fails else 0]
    assert not await cluster.stored.store.read(lambda unit: unit.ledger.held(AgentId("a1")))


@pytest.mark.slow
async def test_another_manager_goes_on_with_a_gang_that_has_started_in_part(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gang_of_slices(cluster, monkeypatch)
    await cluster.tick()
    started = counted(await cluster.stored.session("gang"), KernelStatus.CREATING, KernelStatus.RUNNING)
    assert 0 < started < SLICED
    await cluster.fail_over()
    await cluster.pass_time(20)
    assert counted(await cluster.stored.session("gang"), KernelStatus.RUNNING) == SLICED
    assert await cluster.status("gang") == "running"


async def test_a_new_leader_attends_to_what_runs_and_places_before_all_that_wait_are_read(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await cluster.agent("a1", slots={"cpu": 1000, "mem": 1 << 30})
    await cluster.submit("runs")
    await cluster.settle()
    for number in range(5):
        await cluster.submit(f"w{number}", slots={"cpu": 9000})
    await cluster.submit("next")
    await cluster.settle()
    monkeypatch.setattr(session_cache, "READ_AT_ONCE", 1)
    await agent.ends("runs.0", 0)
    await cluster.coordinator._begin_term(await cluster.coordinator.leadership.held())
    assert await cluster.tick(), "more is to be read"
    assert await cluster.status("runs") == "terminated"
    assert await cluster.status("next") != "pending"
    assert len(cluster.coordinator._reader.unread) > 0
    while await cluster.tick():
        pass
    assert len(cluster.coordinator._reader.unread) == 0
    assert cluster.coordinator._sessions.get(SessionId("w4")) is not None
