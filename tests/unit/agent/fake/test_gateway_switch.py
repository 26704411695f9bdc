"""Requests go to the gateway that has the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sokovan.agent.fake.fleet import FakeFleet
from sokovan.agent.fake.gateway_switch import GatewaySwitch
from sokovan.agent.fake.shape import FleetShape
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.ports.agent_gateway import AgentUnreachable, ImageState
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import CreateKernel
from tests.unit.agent.fake.recording_registry import RecordingRegistry

K1 = KernelId("k1")


class Rig:
    """Two gateways behind one switch; of the second's two agents, the first has one too."""

    def __init__(self) -> None:
        self.clock, self.registry = VirtualClock(), RecordingRegistry()
        self.first, self.second = (
            FakeFleet(
                self.clock,
                FleetShape(count=count, gpus=1),
                admit=self.registry.admit,
                on_heartbeat=self.registry.on_heartbeat,
            )
            for count in (1, 2)
        )
        self.switch = GatewaySwitch(self.first, self.second)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    running = [asyncio.ensure_future(fleet.run()) for fleet in (made.first, made.second)]
    await made.clock.advance(0)
    yield made
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


@pytest.mark.parametrize(("agent", "is_first"), [("r00n0", True), ("r00n1", False)])
async def test_every_request_reaches_the_one_that_has_the_agent(rig: Rig, agent: str, *, is_first: bool) -> None:
    agent_id = AgentId(agent)
    fleet = rig.first if is_first else rig.second
    assert rig.switch.connected(agent_id)
    incarnation = fleet.incarnation(agent_id)
    assert (await rig.switch.prepare_image(agent_id, incarnation, "host")).state is ImageState.READY
    await rig.switch.create_kernel(agent_id, incarnation, CreateKernel(K1, 1, SessionId("s"), "host", ("bash",)))
    await rig.clock.advance(1)
    assert b"only simulates" in (await rig.switch.read_log(agent_id, K1, 1, offset=0, limit=100)).data
    assert (await rig.switch.measure(agent_id, K1, 1)).processes == 1
    async with rig.switch.execute(agent_id, K1, 1, ["true"], terminal=False) as command:
        await rig.clock.advance(1)
        assert await command.wait() == 0
    assert not (await rig.switch.stop_kernel(agent_id, incarnation, K1, 1, grace_s=1.0)).gone
    await rig.clock.advance(1)
    await rig.switch.forget_kernel(agent_id, incarnation, K1, 1)
    assert rig.registry.states[agent_id].kernels != ()
    await rig.clock.advance(1)
    assert rig.registry.states[agent_id].kernels == ()


async def test_an_agent_that_neither_has_is_unreachable(rig: Rig) -> None:
    assert not rig.switch.connected(AgentId("nobody"))
    with pytest.raises(AgentUnreachable):
        await rig.switch.prepare_image(AgentId("nobody"), 1, "host")
