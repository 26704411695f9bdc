"""The gateway on links, with a real agent at the other end and real processes behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.ports.runtime import KernelRuntime, KernelState, Launch
from sokovan.testing.clock import until
from sokovan.testing.contracts.agent_gateway import CHECKS, GatewaySubject
from tests.integration.agent_rig import AGENT, INVENTORY, Agent, Manager, Register, comes_true, launch
from tests.integration.tiny_runtime import TinyRuntime


def lasting(image: str) -> Callable[[str], Launch]:
    return lambda name: launch(name, "sh", "-c", "echo hello; exec sleep 3600", image=image)


@asynccontextmanager
async def managed(root: Path, runtime: KernelRuntime) -> AsyncIterator[Manager]:
    manager = Manager(Register())
    await manager.start()
    agent = Agent(root, manager.address, runtime=runtime)
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


@pytest.fixture(params=["tiny", "process"])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GatewaySubject]:
    tiny = TinyRuntime(tmp_path)
    tiny.pull_may_end.set()
    is_tiny = request.param == "tiny"
    runtime = tiny if is_tiny else ProcessRuntime(tmp_path / "machine", SystemClock())
    async with managed(tmp_path, runtime) as manager:
        yield GatewaySubject(
            gateway=manager.agents,
            agent_id=AGENT,
            incarnation=manager.agents.incarnation(AGENT),
            lasting=lasting("python" if is_tiny else "host"),
            capacity=INVENTORY.slots["cpu"],
            image="new-image" if is_tiny else "host",
            elapse=SystemClock().sleep,
        )
    await tiny.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_gateway_keeps_its_promise(
    check: Callable[[GatewaySubject], Awaitable[None]], subject: GatewaySubject
) -> None:
    await check(subject)
