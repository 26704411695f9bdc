"""The gateway on links, with a real agent at the other end and real processes behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.agent.watcher import Sight
from sokovan.ports.runtime import KernelRuntime, KernelState, Launch
from sokovan.testing.clock import until
from sokovan.testing.contracts.agent_gateway import CHECKS, GatewaySubject
from sokovan.testing.contracts.agent_gateway_commands import COMMAND_CHECKS
from tests.integration.agent_rig import AGENT, INVENTORY, Agent, Manager, Register, comes_true, launch
from tests.integration.tiny_runtime import TinyRuntime

Check = Callable[[GatewaySubject], Awaitable[None]]


def lasting(image: str) -> Callable[[str], Launch]:
    return lambda name: launch(name, "sh", "-c", "echo hello; exec sleep 3600", image=image)


@asynccontextmanager
async def managed(root: Path, runtime: KernelRuntime, sight: Sight) -> AsyncIterator[Manager]:
    manager = Manager(Register())
    await manager.start()
    agent = Agent(root, manager.address, runtime=runtime, sight=sight)
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
    runtime: KernelRuntime, root: Path, *, image: str, new_image: str, sight: Sight
) -> AsyncIterator[GatewaySubject]:
    async with managed(root, runtime, sight) as manager:
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
    async with subject_on(runtime, root, image="python", new_image="new-image", sight=Sight()) as subject:
        yield subject
    await runtime.close()


@asynccontextmanager
async def process(root: Path) -> AsyncIterator[GatewaySubject]:
    runtime = ProcessRuntime(root / "machine", SystemClock())
    sight = Sight(changes=runtime.changes)
    async with subject_on(runtime, root, image="host", new_image="host", sight=sight) as subject:
        yield subject


SUBJECTS = {"tiny": tiny, "process": process}


@pytest.fixture(params=SUBJECTS)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GatewaySubject]:
    async with SUBJECTS[request.param](tmp_path) as ready:
        yield ready


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_gateway_keeps_its_promise(check: Check, subject: GatewaySubject) -> None:
    await check(subject)


@pytest.mark.parametrize("check", COMMAND_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", ["process"], indirect=True)
async def test_the_gateway_keeps_its_promise_about_commands(check: Check, subject: GatewaySubject) -> None:
    await check(subject)
