"""A fake agent admits and reports kernels by the rules of a real one."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.agent.fake.event_queue import EventQueue
from sokovan.agent.fake.fake_agent import TOKEN, FakeAgent, FakeAgentTiming
from sokovan.agent.fake.shape import FleetShape
from sokovan.agent.journal_records import KernelKey
from sokovan.agent.messages import CreateRequested, ForgetRequested, StopRequested
from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.agent_gateway import AgentRefused, GoneProof
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import CreateKernel

K1 = KernelKey(KernelId("k1"), 1)


class Rig:
    """One fake agent of incarnation 3, whose queue runs when time is advanced."""

    def __init__(self, **shape: Any) -> None:
        self.clock = VirtualClock()
        self.queue = EventQueue(self.clock)
        fleet = FleetShape(count=1, gpus=2, **shape)
        self.agent = FakeAgent(
            fleet.agents()[0], fleet.devices(), self.queue, FakeAgentTiming(), changed=lambda agent: agent.observe()
        )
        self.agent.welcome(3)

    def create(self, name: str = "k1", attempt: int = 1, *command: str, **changes: Any) -> None:
        launch = CreateKernel(
            KernelId(name), attempt, SessionId("s"), "host", command or ("sleep", "infinity"), **changes
        )
        self.agent.request(CreateRequested(TOKEN, 3, launch))

    def stop(self, key: KernelKey = K1, grace_s: float = 1.0) -> GoneProof:
        proof = self.agent.request(StopRequested(TOKEN, 3, key, grace_s))
        assert proof is not None
        return proof

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        for action in self.queue.due():
            action()

    async def end(self, key: KernelKey = K1) -> None:
        self.stop(key)
        await self.advance(1)


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def test_slots_are_taken_until_the_end_and_then_free(rig: Rig) -> None:
    whole = {"cpu": 64_000}
    rig.create(slots=whole)
    with pytest.raises(AgentRefused, match="not enough cpu"):
        rig.create("k2", slots={"cpu": 1})
    await rig.end()
    rig.create("k2", slots=whole)


async def test_a_kernel_beyond_the_kernel_limit_is_refused() -> None:
    rig = Rig(kernels_max=2)
    rig.create("k1")
    rig.create("k2")
    with pytest.raises(AgentRefused, match="2 kernels run here, the limit is 2") as refused:
        rig.create("k3")
    assert refused.value.reason == "no-room"
    await rig.end()
    rig.create("k3")


async def test_a_device_is_for_one_kernel(rig: Rig) -> None:
    rig.create(devices={"cuda.device": ("gpu0",)})
    for devices in (("gpu0",), ("gpu1", "gpu1"), ("gpu2",)):
        with pytest.raises(AgentRefused, match="no-room"):
            rig.create("k2", devices={"cuda.device": devices})
    rig.create("k2", devices={"cuda.device": ("gpu1",)})
    await rig.end()
    rig.create("k3", devices={"cuda.device": ("gpu0",)})


async def test_an_outdated_attempt_is_refused(rig: Rig) -> None:
    rig.create(attempt=2)
    with pytest.raises(AgentRefused, match="outdated-attempt"):
        rig.create(attempt=1)
    with pytest.raises(AgentRefused, match="attempt-live") as refused:
        rig.create(attempt=3)
    assert refused.value.reason == "attempt-live", "programs use the reason, not the message"
    assert rig.stop(KernelKey(KernelId("k9"), 5)).gone
    with pytest.raises(AgentRefused, match="outdated-attempt"):
        rig.create("k9", attempt=4)


async def test_a_kernel_that_is_stopped_before_it_runs_never_runs(rig: Rig) -> None:
    rig.create()
    assert not rig.stop().gone
    with pytest.raises(AgentRefused, match="stopping"):
        rig.create()
    await rig.advance(1)
    [report] = rig.agent.heartbeat().kernels
    assert (report.running, report.exit_code) == (False, 143)
    gone = rig.stop()
    assert (gone.gone, gone.exit_code) == (True, 143)
    assert rig.agent.heartbeat().kernels == ()


async def test_requests_for_another_incarnation_are_refused(rig: Rig) -> None:
    for event in (ForgetRequested(TOKEN, 2, K1), StopRequested(TOKEN, 4, K1, 1.0)):
        with pytest.raises(AgentRefused, match="other-incarnation"):
            rig.agent.request(event)
    with pytest.raises(AgentRefused, match="other-incarnation"):
        rig.agent.image(2, "host")


async def test_a_running_kernel_cannot_be_forgotten(rig: Rig) -> None:
    rig.create()
    with pytest.raises(AgentRefused, match="not-over"):
        rig.agent.request(ForgetRequested(TOKEN, 3, K1))
    await rig.end()
    rig.agent.request(ForgetRequested(TOKEN, 3, K1))
    assert (rig.agent.heartbeat().kernels, rig.agent.kernels) == ((), {})


async def test_a_heartbeat_lists_every_kernel_and_is_numbered(rig: Rig) -> None:
    rig.create("k1")
    rig.create("k2", 1, "exit", "7")
    await rig.advance(1)
    await rig.advance(0)
    rig.create("k3")
    state = rig.agent.heartbeat()
    assert [(report.kernel_id, report.running, report.exit_code) for report in state.kernels] == [
        ("k1", True, None),
        ("k2", False, 7),
        ("k3", False, None),
    ]
    assert (state.incarnation, rig.agent.heartbeat().sequence) == (3, state.sequence + 1)


async def test_a_heartbeat_says_that_the_devices_of_running_kernels_work(rig: Rig) -> None:
    rig.create("k1", 1, devices={"cuda.device": ("gpu1",)})
    assert [one.use_percent for one in rig.agent.heartbeat().devices.values()] == [0, 0], "it is being started"
    await rig.advance(1)
    idle, busy = rig.agent.heartbeat().devices.values()
    assert (idle.use_percent, busy.use_percent != 0) == (0, True)
    await rig.end()
    assert [one.use_percent for one in rig.agent.heartbeat().devices.values()] == [0, 0]


async def test_an_ended_kernel_keeps_its_output_but_not_its_environment(rig: Rig) -> None:
    rig.create("k1", 1, "echo", "hello", environment={"A": "x" * 1000})
    await rig.advance(60)
    rig.stop()
    await rig.advance(60)
    kept = rig.agent.kernels[K1].launch
    assert (kept.command, kept.environment) == (("echo", "hello"), {})
    assert rig.agent.log(K1, offset=0, limit=100).end
