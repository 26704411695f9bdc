"""One session, agent or kind of work that is broken delays no other."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.domain.owners.outputs import OutputLimits
from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.sessions.config import Timing
from sokovan.orchestrator.sessions.context import CycleInput
from sokovan.orchestrator.sessions.handlers import start
from sokovan.orchestrator.sessions.launch import launches
from sokovan.ports.storage import BatchedWork, Fence, StoreRetention, UnitOfWork
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import decide_at_once
from sokovan.testing.stored_cluster import DEFAULT_GROUP
from sokovan.wire.frames import CreateKernel

pytestmark = pytest.mark.slow

T = TypeVar("T")
R = TypeVar("R")


def poisonous(
    session: SessionRecord, addresses: Mapping[AgentId, str], *outputs: OutputLimits | None, **which: Any
) -> Sequence[CreateKernel]:
    if session.session_id == "poison":
        raise ValueError("this session cannot be launched")
    return launches(session, addresses, *outputs, **which)


async def test_a_session_that_cannot_be_launched_is_given_up_and_holds_back_no_other(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await cluster.agent("a1")
    monkeypatch.setattr(start, "launches", poisonous)
    await cluster.submit("poison")
    await cluster.submit("good")
    await cluster.settle()
    assert await cluster.status("good") == "running"
    await cluster.pass_time(20)
    session = await cluster.session("poison")
    assert (session.status.value, session.cause) == ("terminated", "handler-failed")
    assert "this session cannot be launched" in (session.cause_detail or "")
    assert (await cluster.codes("poison")).count("handler-failed") >= 1
    assert agent.running() == ["good.0"]
    assert cluster.telemetry.counted("handler_failures_total", handler="start", kind="session") == 5


async def test_an_agent_that_hangs_does_not_hold_up_sessions_on_others(cluster: OrchestratedCluster) -> None:
    hanging = await cluster.agent("a1", slots={"cpu": 1000, "mem": 1 << 30})
    for kind in ("prepare", "create", "stop"):
        hanging.faults[kind] = Fault.HANGS
    await cluster.submit("stuck")
    await cluster.tick()
    await cluster.agent("a2", slots={"cpu": 1000, "mem": 1 << 30})
    began_ms = cluster.clock.monotonic_ms()
    await cluster.submit("good")
    await cluster.settle()
    assert await cluster.status("good") == "running"
    assert cluster.clock.monotonic_ms() - began_ms < 1_000


async def test_a_batch_with_one_that_the_store_refuses_is_written_for_the_others(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.agent("a1")
    cluster.coordinator = cluster.new_coordinator(store=RefusingStore(cluster, "s3"))
    for number in range(8):
        await cluster.submit(f"s{number}")
    await cluster.settle()
    statuses = [await cluster.status(f"s{number}") for number in range(8)]
    assert statuses == ["running"] * 3 + ["scheduled"] + ["running"] * 4


async def test_a_kind_of_work_that_hangs_is_cut_off_and_the_others_go_on() -> None:
    async with OrchestratedCluster.open(timing=Timing(handler_timeout_s=2.0)) as cluster:
        await cluster.agent("a1")
        await cluster.settle()
        coordinator = cluster.coordinator
        coordinator.handlers = (Hanging(cluster), *coordinator.handlers)
        await cluster.submit("s")
        await cluster.tick()
        assert await cluster.status("s") in {"creating", "running"}
        assert cluster.telemetry.counted("handler_failures_total", handler="hanging", kind="timeout") == 1
        assert [name for name, _ in cluster.failures] == ["hanging"]


async def test_a_kind_of_work_that_raises_is_reported_and_the_others_go_on(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.settle()
    coordinator = cluster.coordinator
    coordinator.handlers = (Raising(), *coordinator.handlers)
    await cluster.submit("s")
    await cluster.settle()
    assert await cluster.status("s") == "running"
    assert {name for name, _ in cluster.failures} == {"raising"}


async def test_a_scaling_group_that_cannot_be_scheduled_stops_no_other(cluster: OrchestratedCluster) -> None:
    broken = ScalingGroup(name=ScalingGroupName("broken"), scheduler="nonsense")
    await cluster.stored.put(broken)
    await cluster.agent("a1")
    await cluster.submit("stuck", scaling_group="broken")
    await cluster.submit("good")
    await cluster.settle()
    assert await cluster.status("good") == "running"
    assert await cluster.status("stuck") == "pending"
    assert (await cluster.codes("stuck")) == ["handler-failed"]
    await cluster.stored.put(replace(broken, scheduler="fifo"))
    await cluster.settle()
    assert "NO_NODES" in await cluster.codes("stuck")


async def test_a_decision_that_raises_costs_one_cycle(cluster: OrchestratedCluster) -> None:
    calls: list[str] = []

    async def shaky(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        calls.append(snapshot.scaling_group.name)
        if len(calls) == 1:
            raise RuntimeError("a plugin is broken")
        return await decide_at_once(snapshot, profile)

    await cluster.agent("a1")
    cluster.coordinator = cluster.new_coordinator(decide=shaky)
    await cluster.submit("s")
    await cluster.tick()
    assert await cluster.status("s") == "pending"
    await cluster.pass_time(11)
    assert calls[0] == DEFAULT_GROUP
    assert await cluster.status("s") == "running"


class Hanging:
    name = "hanging"

    def clear(self) -> None:
        pass

    def __init__(self, cluster: OrchestratedCluster) -> None:
        self._cluster, self._times = cluster, 0

    async def handle(self, cycle: CycleInput) -> bool:
        del cycle
        self._times += 1
        if self._times == 1:
            await self._cluster.clock.sleep(3600)
        return False


class Raising:
    name = "raising"

    def clear(self) -> None:
        pass

    async def handle(self, cycle: CycleInput) -> bool:
        raise RuntimeError(f"no work for {len(cycle.agents)} agents")


class RefusingStore:
    """A store that refuses every write about one session."""

    def __init__(self, cluster: OrchestratedCluster, refused: str) -> None:
        self._store, self._refused = cluster.store, refused

    async def run(self, work: Callable[[UnitOfWork], Awaitable[R]], *, fence: Fence | None = None) -> R:
        refused = self._refused

        async def watched(unit: UnitOfWork) -> R:
            result = await work(unit)
            for record in result if isinstance(result, list) else ():
                if getattr(record, "session_id", "") == refused:
                    raise ValueError(f"{refused} cannot be written")
            return result

        return await self._store.run(watched, fence=fence)

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        return await self._store.run_batched(work, item)

    async def read(self, work: Callable[[UnitOfWork], Awaitable[R]]) -> R:
        return await self._store.read(work)

    async def prune(self, *, older_than_s: float) -> int:
        return await self._store.prune(older_than_s=older_than_s)

    async def expire(self, keep: StoreRetention) -> bool:
        return await self._store.expire(keep)
