"""Gateways to check: on links, with a real agent and real processes behind it; and the pretended one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from sokovan.adapters.fake_agents.fleet import FakeAgentTiming, FakeFleet
from sokovan.adapters.fake_agents.gateway_switch import GatewaySwitch
from sokovan.adapters.fake_agents.shape import FleetShape
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.agent.watcher import WatchOptions
from sokovan.ports.runtime import KernelRuntime, KernelState
from sokovan.testing.clock import VirtualClock, until
from sokovan.testing.contracts.agent_gateway import GatewaySubject
from sokovan.testing.contracts.agent_gateway_commands import FAILING
from sokovan.wire.frames import CreateKernel
from tests.integration.agent_rig import AGENT, INVENTORY, Agent, Manager, Register, comes_true, launch
from tests.integration.tiny_runtime import TinyRuntime
from tests.unit.adapters.fake_agents.listening import Listening

Check = Callable[[GatewaySubject], Awaitable[None]]


def lasting(image: str) -> Callable[[str], CreateKernel]:
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
    """Leave nothing behind."""

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
            lasting=lasting(image),
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
    watch = WatchOptions(changes=runtime.changes)
    async with subject_on(runtime, root, image="host", new_image="host", watch=watch) as subject:
        yield subject


@asynccontextmanager
async def pretend(_root: Path) -> AsyncIterator[GatewaySubject]:
    clock, listening, shape = VirtualClock(), Listening(), FleetShape(count=3, gpus=1)
    # It says that it is pretended, which here looks like what a real one would say.
    manner = FakeAgentTiming(words=lambda _agent_id, command: b"" if tuple(command) == FAILING else b"hello\n")
    fleet = FakeFleet(clock, shape, admit=listening.admit, heard=listening.hear, manner=manner)
    running = asyncio.ensure_future(fleet.run())
    await clock.advance(0)
    [_, info, _] = shape.agents()
    yield GatewaySubject(
        gateway=GatewaySwitch(fleet, FakeFleet(clock, shape, admit=listening.admit, heard=listening.hear)),
        agent_id=info.agent_id,
        incarnation=fleet.incarnation(info.agent_id),
        lasting=lambda name: launch(name, "sleep", "infinity"),
        capacity=info.available_slots["cpu"],
        image="any",
        elapse=clock.advance,
    )
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


SUBJECTS = {"tiny": tiny, "process": process, "pretend": pretend}
