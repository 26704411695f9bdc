"""Gateways to check: links to real agents with real processes, and fake agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.agent.fake.fake_agent import FakeAgentTiming
from sokovan.agent.fake.fleet import FakeFleet
from sokovan.agent.fake.gateway_switch import GatewaySwitch
from sokovan.agent.fake.shape import FleetShape
from sokovan.agent.watcher import WatchOptions
from sokovan.ports.runtime import KernelRuntime, KernelState
from sokovan.testing.clock import VirtualClock, until
from sokovan.testing.contracts.agent_gateway import GatewaySubject
from sokovan.testing.contracts.agent_gateway_commands import FAILING
from sokovan.wire.frames import CreateKernel
from tests.integration.agent_rig import AGENT, INVENTORY, Agent, Manager, Register, comes_true, launch
from tests.integration.tiny_runtime import TinyRuntime
from tests.unit.agent.fake.recording_registry import RecordingRegistry

Check = Callable[[GatewaySubject], Awaitable[None]]


def long_running(image: str) -> Callable[[str], CreateKernel]:
    return lambda name: launch(name, "sh", "-c", "echo hello; exec sleep 3600", image=image)


@asynccontextmanager
async def managed(root: Path, runtime: KernelRuntime, watch: WatchOptions) -> AsyncIterator[Manager]:
    manager = Manager(Register())
    await manager.start()
    agent = Agent(root, manager.address, runtime=runtime, watch=watch)
    try:
        await comes_true(lambda: manager.agents.connected(AGENT))
        yield manager
    finally:
        await agent.stop()
        await emptied(runtime)
        await manager.stop()


async def emptied(runtime: KernelRuntime) -> None:
    """Stop all kernels."""

    async def is_empty() -> bool:
        alive = [seen for seen in await runtime.observe() if seen.state is not KernelState.EXITED]
        for seen in alive:
            await runtime.stop(seen.kernel_id, seen.attempt, grace_s=0.0)
        return not alive

    await until(is_empty, elapse=SystemClock().sleep)


@asynccontextmanager
async def subject_on(
    runtime: KernelRuntime, root: Path, *, image: str, new_image: str, watch: WatchOptions
) -> AsyncIterator[GatewaySubject]:
    async with managed(root, runtime, watch) as manager:
        yield GatewaySubject(
            gateway=manager.agents,
            agent_id=AGENT,
            incarnation=manager.agents.incarnation(AGENT),
            long_running=long_running(image),
            capacity=INVENTORY.slots["cpu"],
            image=new_image,
            elapse=SystemClock().sleep,
        )


@asynccontextmanager
async def tiny(root: Path) -> AsyncIterator[GatewaySubject]:
    runtime = TinyRuntime(root)
    runtime.pull_may_end.set()
    async with subject_on(runtime, root, image="python", new_image="new-image", watch=WatchOptions()) as subject:
        yield subject
    await runtime.close()


@asynccontextmanager
async def process(root: Path) -> AsyncIterator[GatewaySubject]:
    runtime = ProcessRuntime(root / "machine", SystemClock())
    watch = WatchOptions(changes=runtime.changes, ended=runtime.ended)
    async with subject_on(runtime, root, image="host", new_image="host", watch=watch) as subject:
        yield subject


@asynccontextmanager
async def fake(_root: Path) -> AsyncIterator[GatewaySubject]:
    clock, registry, shape = VirtualClock(), RecordingRegistry(), FleetShape(count=3, gpus=1)
    # The notice of a fake kernel, made to look like the output that the contract expects.
    timing = FakeAgentTiming(output=lambda _agent_id, command: b"" if tuple(command) == FAILING else b"hello\n")
    fleet = FakeFleet(clock, shape, admit=registry.admit, on_heartbeat=registry.on_heartbeat, timing=timing)
    running = asyncio.ensure_future(fleet.run())
    await clock.advance(0)
    [_, info, _] = shape.agents()
    yield GatewaySubject(
        gateway=GatewaySwitch(fleet, FakeFleet(clock, shape, admit=registry.admit, on_heartbeat=registry.on_heartbeat)),
        agent_id=info.agent_id,
        incarnation=fleet.incarnation(info.agent_id),
        long_running=lambda name: launch(name, "sleep", "infinity"),
        capacity=info.available_slots["cpu"],
        image="any",
        elapse=clock.advance,
    )
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


SUBJECTS = {"tiny": tiny, "process": process, "fake": fake}
