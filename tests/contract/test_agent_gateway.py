"""The gateway on links, with a real agent at the other end and real processes behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.runtime import Launch
from sokovan.testing.contracts.agent_gateway import CHECKS, GatewaySubject
from tests.integration.agent_rig import AGENT, INVENTORY, Agent, Manager, Register, comes_true, launch


def lasting(name: str) -> Launch:
    return launch(name, "sh", "-c", "echo hello; exec sleep 3600")


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[GatewaySubject]:
    manager = Manager(Register())
    await manager.start()
    agent = Agent(tmp_path, manager.address)
    agent.runtime.pull_may_end.set()
    try:
        await comes_true(lambda: manager.agents.connected(AGENT))
        yield GatewaySubject(
            gateway=manager.agents,
            agent_id=AGENT,
            incarnation=manager.agents.incarnation(AGENT),
            lasting=lasting,
            capacity=INVENTORY.slots["cpu"],
            image="new-image",
            elapse=SystemClock().sleep,
        )
    finally:
        await agent.stop()
        await agent.runtime.close()
        await manager.stop()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_gateway_keeps_its_promise(
    check: Callable[[GatewaySubject], Awaitable[None]], subject: GatewaySubject
) -> None:
    await check(subject)
