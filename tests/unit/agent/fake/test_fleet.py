"""A fleet of fake agents; the gateway contract checks the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sokovan.agent.fake.fake_agent import FakeAgentTiming
from sokovan.agent.fake.fleet import FakeFleet
from sokovan.agent.fake.shape import FleetShape
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable
from sokovan.ports.agent_states import KernelReport
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import CreateKernel
from tests.unit.agent.fake.recording_registry import RecordingRegistry

A1 = AgentId("r00n0")
K1 = KernelId("k1")


class Rig:
    """A running fleet and a registry that records its heartbeats."""

    def __init__(self, count: int = 9) -> None:
        self.clock, self.registry = VirtualClock(), RecordingRegistry()
        self.logged: list[str] = []
        self.fleet = FakeFleet(
            self.clock,
            FleetShape(count=count, gpus=8),
            admit=self.registry.admit,
            on_heartbeat=self.registry.on_heartbeat,
            timing=FakeAgentTiming(start_s=0.05, heartbeat_s=5.0),
            log=self.logged.append,
        )
        self.task = asyncio.ensure_future(self.fleet.run())

    async def create(self, *command: str, name: str = "k1", agent_id: AgentId = A1) -> None:
        launch = CreateKernel(KernelId(name), 1, SessionId("s"), "host", command, slots={"cpu": 1000, "cuda.device": 1})
        await self.fleet.create_kernel(agent_id, self.fleet.incarnation(agent_id), launch)

    def report(self, name: str = "k1", agent_id: AgentId = A1) -> KernelReport | None:
        return next((one for one in self.registry.states[agent_id].kernels if one.kernel_id == name), None)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    await made.clock.advance(0)
    yield made
    await made.end()


async def test_every_agent_enrols_with_its_resources_and_sends_a_heartbeat(rig: Rig) -> None:
    assert len(rig.registry.admitted) == len(rig.registry.states) == 9
    info, devices, kernels = rig.registry.admitted[AgentId("r01n0")]
    assert (info.labels["rack"], len(devices), kernels) == ("r01", 8, ())
    assert rig.fleet.connected(A1)


async def test_a_kernel_starts_after_a_moment_and_ends_as_its_command_says(rig: Rig) -> None:
    await rig.create("sleep", "3")
    await rig.clock.advance(0.04)
    assert rig.report() is None
    await rig.clock.advance(0.02)
    assert rig.report() == KernelReport(K1, 1, running=True)
    await rig.clock.advance(2.9)
    assert rig.report() == KernelReport(K1, 1, running=True)
    await rig.clock.advance(0.2)
    assert rig.report() == KernelReport(K1, 1, running=False, exit_code=0)


@pytest.mark.parametrize(("command", "exit_code"), [(("false",), 1), (("exit", "7"), 7), (("sh", "-c", "exit 3"), 3)])
async def test_a_failure_is_a_failure(rig: Rig, command: tuple[str, ...], exit_code: int) -> None:
    await rig.create(*command)
    await rig.clock.advance(0.1)
    report = rig.report()
    assert report is not None
    assert report.exit_code == exit_code


async def test_the_output_of_a_kernel_says_that_it_is_simulated(rig: Rig) -> None:
    await rig.create("python", "train.py")
    await rig.clock.advance(0.1)
    part = await rig.fleet.read_log(A1, K1, 1, offset=0, limit=1000)
    assert part.data == b"fake agent r00n0 only simulates ['python', 'train.py']\n"
    assert not part.end


async def test_a_kernel_uses_its_cores_from_its_start_on_and_nothing_after_its_end(rig: Rig) -> None:
    await rig.create("sleep", "infinity")
    assert (await rig.fleet.measure(A1, K1, 1)).processes == 0
    await rig.clock.advance(2.05)
    first = await rig.fleet.measure(A1, K1, 1)
    await rig.clock.advance(3)
    second = await rig.fleet.measure(A1, K1, 1)
    assert first.cpu_ms == 2000
    assert (second.cpu_ms, second.sampled_ms - first.sampled_ms, second.processes) == (5000, 3000, 1)
    await rig.fleet.stop_kernel(A1, rig.fleet.incarnation(A1), K1, 1, grace_s=0.0)
    await rig.clock.advance(1)
    for kernel in (K1, KernelId("unknown")):
        with pytest.raises(AgentRefused):
            await rig.fleet.measure(A1, kernel, 1)


async def test_an_agent_sends_heartbeats_on_changes_and_periodically(rig: Rig) -> None:
    before = rig.registry.heartbeats
    await rig.clock.advance(20)
    assert rig.registry.heartbeats - before == 9 * 4, "one heartbeat each in five seconds"
    before = rig.registry.heartbeats
    await rig.create("sleep", "infinity")
    await rig.clock.advance(1)
    assert rig.registry.heartbeats - before == 1


async def test_a_stopped_kernel_ends_by_a_signal(rig: Rig) -> None:
    await rig.create("bash")
    await rig.create("bash", name="k2")
    await rig.clock.advance(1)
    incarnation = rig.fleet.incarnation(A1)
    assert not (await rig.fleet.stop_kernel(A1, incarnation, K1, 1, grace_s=5.0)).gone
    assert not (await rig.fleet.stop_kernel(A1, incarnation, KernelId("k2"), 1, grace_s=0.0)).gone
    await rig.clock.advance(0.1)
    assert (await rig.fleet.stop_kernel(A1, incarnation, K1, 1, grace_s=5.0)).exit_code == 143
    assert (await rig.fleet.stop_kernel(A1, incarnation, KernelId("k2"), 1, grace_s=5.0)).exit_code == 137


async def test_an_agent_that_is_not_admitted_at_once_tries_again_and_is_unreachable_before() -> None:
    rig = Rig(count=1)
    rig.registry.failures = [OSError("the store is away")] * 2
    await rig.clock.advance(0.5)
    assert not rig.fleet.connected(A1)
    with pytest.raises(AgentUnreachable):
        await rig.create("true")
    await rig.clock.advance(5)
    assert rig.fleet.connected(A1)
    assert "could not be admitted" in rig.logged[0]
    await rig.end()


async def test_a_heartbeat_that_was_lost_is_made_up_for_by_the_next(rig: Rig) -> None:
    await rig.create("sleep", "infinity")
    rig.registry.failures = [OSError("the cache is away")]
    await rig.clock.advance(0.1)
    assert rig.report() is None
    assert "was lost" in rig.logged[0]
    await rig.clock.advance(5)
    assert rig.report() == KernelReport(K1, 1, running=True)


async def test_a_fleet_that_is_run_again_keeps_its_kernels_and_says_so(rig: Rig) -> None:
    await rig.create("sleep", "infinity")
    await rig.clock.advance(1)
    before = rig.fleet.incarnation(A1)
    await rig.end()
    rig.task = asyncio.ensure_future(rig.fleet.run())
    await rig.clock.advance(0.1)
    assert rig.registry.admitted[A1][2] == ((K1, 1),)
    assert rig.fleet.incarnation(A1) > before
    assert rig.report() == KernelReport(K1, 1, running=True)


@pytest.mark.slow
async def test_a_thousand_agents_with_ten_thousand_kernels_are_one_task_and_few_heartbeats() -> None:
    rig = Rig(count=1000)
    await rig.clock.advance(0)
    agents = list(rig.registry.states)
    for number in range(8000):
        await rig.create("sleep", "60", name=f"k{number}", agent_id=agents[number % 1000])
    before = rig.registry.heartbeats
    await rig.clock.advance(1)
    assert rig.registry.heartbeats - before <= 2000, "kernels of one agent that start together share a heartbeat"
    assert sum(report.running for state in rig.registry.states.values() for report in state.kernels) == 8000
    assert len(asyncio.all_tasks()) < 10
    await rig.end()
