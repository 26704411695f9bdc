"""One pretended agent counts like a real one."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.adapters.fake_agents.machine import FakeAgent, Key
from sokovan.adapters.fake_agents.script import KernelScript
from sokovan.adapters.fake_agents.shape import FleetShape
from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.wire.frames import CreateKernel

SHAPE = FleetShape(count=1, gpus=2)
RUNS = KernelScript(None)
K1 = Key(KernelId("k1"), 1)


def launch(name: str = "k1", attempt: int = 1, **changes: Any) -> CreateKernel:
    return CreateKernel(KernelId(name), attempt, SessionId("s"), "host", ("sleep", "infinity"), **changes)


@pytest.fixture
async def machine() -> FakeAgent:
    made = FakeAgent(SHAPE.agents()[0], SHAPE.devices())
    made.incarnation = 3
    return made


async def test_slots_are_taken_until_the_end_and_then_free(machine: FakeAgent) -> None:
    whole = {"cpu": 64_000}
    assert machine.create(3, launch(slots=whole), RUNS)
    with pytest.raises(AgentRefused, match="not enough cpu"):
        machine.create(3, launch("k2", slots={"cpu": 1}), RUNS)
    assert machine.end(K1, 0)
    assert not machine.end(K1, 1), "an end happens once"
    assert machine.create(3, launch("k2", slots=whole), RUNS)


async def test_a_device_is_for_one_kernel(machine: FakeAgent) -> None:
    machine.create(3, launch(devices={"cuda.device": ("gpu0",)}), RUNS)
    for devices in (("gpu0",), ("gpu1", "gpu1"), ("gpu2",)):
        with pytest.raises(AgentRefused, match="no-room"):
            machine.create(3, launch("k2", devices={"cuda.device": devices}), RUNS)
    machine.create(3, launch("k2", devices={"cuda.device": ("gpu1",)}), RUNS)
    machine.end(K1, 0)
    machine.create(3, launch("k3", devices={"cuda.device": ("gpu0",)}), RUNS)


async def test_an_attempt_that_is_behind_is_refused(machine: FakeAgent) -> None:
    machine.create(3, launch(attempt=2), RUNS)
    with pytest.raises(AgentRefused, match="outdated-attempt"):
        machine.create(3, launch(attempt=1), RUNS)
    with pytest.raises(AgentRefused, match="attempt-live") as refused:
        machine.create(3, launch(attempt=3), RUNS)
    assert refused.value.reason == "attempt-live", "programs go by this, not by the words"
    machine.stop(3, Key(KernelId("k9"), 5))
    with pytest.raises(AgentRefused, match="outdated-attempt"):
        machine.create(3, launch("k9", attempt=4), RUNS)


async def test_one_that_is_stopped_before_it_runs_never_runs(machine: FakeAgent) -> None:
    machine.create(3, launch(), RUNS)
    assert not machine.stop(3, K1).gone
    with pytest.raises(AgentRefused, match="stopping"):
        machine.create(3, launch(), RUNS)
    machine.end(K1, 143)
    assert not machine.start(K1)
    gone = machine.stop(3, K1)
    assert (gone.gone, gone.exit_code) == (True, 143)


async def test_a_heartbeat_lists_everything_and_is_numbered(machine: FakeAgent) -> None:
    for name in ("k1", "k2", "k3"):
        machine.create(3, launch(name), RUNS)
    machine.start(K1)
    machine.end(Key(KernelId("k2"), 1), 7)
    state = machine.state()
    assert [(report.kernel_id, report.running, report.exit_code) for report in state.kernels] == [
        ("k1", True, None),
        ("k2", False, 7),
        ("k3", False, None),
    ]
    assert (state.incarnation, machine.state().sequence) == (3, state.sequence + 1)
