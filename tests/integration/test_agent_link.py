"""Agents and managers over real WebSockets, with real processes, and everything that goes wrong between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.link.manager_link import ManagerAddress
from sokovan.domain.ids import KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageState
from tests.integration.agent_rig import AGENT, Agent, Manager, Register, agent_process, comes_true, launch
from tests.integration.tiny_runtime import TinyRuntime

K1 = KernelId("k1")


@asynccontextmanager
async def managing(register: Register, *, port: int = 0) -> AsyncIterator[Manager]:
    manager = Manager(register, port=port)
    await manager.start()
    try:
        yield manager
    finally:
        await manager.stop()


@pytest.fixture
def register() -> Register:
    return Register()


@pytest.fixture
async def manager(register: Register) -> AsyncIterator[Manager]:
    async with managing(register) as ready:
        yield ready


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder for an agent; everything that runs in it is ended."""
    yield tmp_path
    TinyRuntime(tmp_path).end_all()


@pytest.fixture
async def agent(root: Path, manager: Manager) -> AsyncIterator[Agent]:
    ready = Agent(root, manager.address)
    await comes_true(lambda: AGENT in manager.states)
    yield ready
    await ready.stop()
    await ready.runtime.close()


async def stopped(manager: Manager, *, incarnation: int, attempt: int = 1, grace_s: float = 2.0) -> GoneProof:
    """Command until the agent says that it is gone, as a manager does."""
    for _ in range(2000):
        gone = await manager.agents.stop_kernel(AGENT, incarnation, K1, attempt, grace_s=grace_s)
        if gone.gone:
            return gone
        await SystemClock().sleep(0.01)
    raise AssertionError("it is never gone")


async def test_a_kernel_from_create_to_forget(agent: Agent, manager: Manager) -> None:
    agents = manager.agents
    await agents.create_kernel(AGENT, 1, launch("k1", "sh", "-c", "echo hello; exec sleep 3600"))
    await comes_true(lambda: (report := manager.report("k1")) and report.running)

    async def said_hello() -> bytes:
        return (await agents.read_log(AGENT, K1, 1, offset=0, limit=100)).data

    while await said_hello() != b"hello\n":
        await SystemClock().sleep(0.01)
    first = await agents.stop_kernel(AGENT, 1, K1, 1, grace_s=5.0)
    assert not first.gone
    gone = await stopped(manager, incarnation=1)
    assert gone.exit_code == 128 + 15
    await comes_true(lambda: (report := manager.report("k1")) and report.exit_code == 143)
    part = await agents.read_log(AGENT, K1, 1, offset=3, limit=100)
    assert (part.data, part.end) == (b"lo\n", True)

    await agents.forget_kernel(AGENT, 1, K1, 1)
    await comes_true(lambda: manager.report("k1") is None)
    with pytest.raises(AgentRefused, match="tombstone"):
        await agents.create_kernel(AGENT, 1, launch("k1"))
    assert agent.runtime.processes() == []


@pytest.mark.usefixtures("agent")
async def test_a_kernel_that_ends_by_itself_is_reported_soon(manager: Manager) -> None:
    await manager.agents.create_kernel(AGENT, 1, launch("k1", "sh", "-c", "exit 7"))

    await comes_true(lambda: (report := manager.report("k1")) and report.exit_code == 7, limit_s=180)
    assert (await stopped(manager, incarnation=1)).exit_code == 7


async def test_a_link_that_is_cut_while_a_kernel_starts_costs_nothing(agent: Agent, manager: Manager) -> None:
    creating = asyncio.ensure_future(manager.agents.create_kernel(AGENT, 1, launch("k1")))
    await SystemClock().sleep(0)
    manager.cut()
    with pytest.raises(AgentUnreachable):
        await creating
    await comes_true(lambda: manager.agents.connected(AGENT))
    await manager.agents.create_kernel(AGENT, 1, launch("k1"))

    await comes_true(lambda: (report := manager.report("k1")) and report.running)
    assert len(agent.runtime.processes()) == 1
    assert manager.agents.incarnation(AGENT) == 1, "a new link is not a new incarnation"


async def test_a_slow_pull_delays_nothing_and_says_how_far_it_is(agent: Agent, manager: Manager) -> None:
    agents = manager.agents
    assert (await agents.prepare_image(AGENT, 1, "python")).state is ImageState.READY
    assert (await agents.prepare_image(AGENT, 1, "slow")).state is ImageState.PULLING
    await comes_true(lambda: any(report.detail == "half of it is here" for report in manager.images))
    await agents.create_kernel(AGENT, 1, launch("k1"))
    with pytest.raises(AgentRefused, match="it is not here"):
        await agents.create_kernel(AGENT, 1, launch("k2", image="slow"))
    agent.runtime.pull_may_end.set()
    await comes_true(lambda: {report.state for report in manager.images} == {ImageState.READY})

    await agents.create_kernel(AGENT, 1, launch("k2", image="slow"))
    assert (await agents.prepare_image(AGENT, 1, "unknown-image")).state is ImageState.FAILED


@pytest.mark.usefixtures("agent")
async def test_a_manager_that_comes_back_finds_everything_as_it_was(manager: Manager, register: Register) -> None:
    await manager.agents.create_kernel(AGENT, 1, launch("k1"))
    await manager.stop()
    async with managing(register, port=manager.port) as second:
        await comes_true(lambda: (report := second.report("k1")) and report.running)
        assert second.agents.incarnation(AGENT) == 1
        assert (await stopped(second, incarnation=1)).gone
    await manager.start()


async def test_an_agent_knows_several_managers(root: Path, register: Register) -> None:
    async with managing(register) as first, managing(register) as second:
        agent = Agent(root, first.address, second.address)
        await comes_true(lambda: AGENT in first.states and AGENT in second.states)
        now = register.incarnations[AGENT]
        await comes_true(lambda: {first.states[AGENT].incarnation, second.states[AGENT].incarnation} == {now})
        await first.agents.create_kernel(AGENT, now, launch("k1"))
        await comes_true(lambda: (report := second.report("k1")) and report.running)

        assert (await stopped(second, incarnation=now)).gone
        with pytest.raises(AgentRefused, match="tombstone"):
            await first.agents.create_kernel(AGENT, now, launch("k1"))
        await agent.stop()
        await agent.runtime.close()


async def test_an_agent_that_is_killed_finds_its_kernels_again_and_keeps_its_promises(
    root: Path, manager: Manager, register: Register
) -> None:
    agents = manager.agents
    async with agent_process(root, manager) as process:
        await comes_true(lambda: AGENT in manager.states)
        await agents.create_kernel(AGENT, 1, launch("k1"))
        ends = f"while [ ! -e '{root}/go' ]; do sleep 0.02; done; exit 3"
        await agents.create_kernel(AGENT, 1, launch("k2", "sh", "-c", ends))
        assert (await agents.stop_kernel(AGENT, 1, KernelId("k3"), 1, grace_s=1.0)).gone
        await comes_true(lambda: len(TinyRuntime(root).processes()) == 2)
        before = TinyRuntime(root).processes()
        process.kill()
        await process.wait()
    (root / "go").touch()
    await comes_true(lambda: not agents.connected(AGENT))
    async with agent_process(root, manager):
        await comes_true(lambda: manager.agents.incarnation(AGENT) == 2)
        await comes_true(lambda: (report := manager.report("k1")) and report.running)
        await comes_true(lambda: (report := manager.report("k2")) and report.exit_code == 3)
        assert set(TinyRuntime(root).processes()) <= set(before)

        with pytest.raises(AgentRefused, match="other-incarnation"):
            await agents.create_kernel(AGENT, 1, launch("k4"))
        with pytest.raises(AgentRefused, match="tombstone"):
            await agents.create_kernel(AGENT, 2, launch("k3"))
        assert (await stopped(manager, incarnation=2)).gone
        assert register.incarnations == {AGENT: 2}


async def test_of_two_agents_with_one_name_the_later_one_has_the_link(
    tmp_path: Path, manager: Manager, register: Register
) -> None:
    first = Agent(tmp_path / "one", manager.address)
    await comes_true(lambda: manager.agents.incarnation(AGENT) == 1)
    second = Agent(tmp_path / "two", manager.address)
    await comes_true(lambda: manager.agents.incarnation(AGENT) == 2)
    await comes_true(lambda: any("superseded by" in end for end in manager.ends))
    await comes_true(lambda: any("another process is this agent now" in line for line in first.logged))

    with pytest.raises(AgentRefused, match="other-incarnation"):
        await manager.agents.create_kernel(AGENT, 1, launch("k1"))
    await manager.agents.create_kernel(AGENT, 2, launch("k1"))
    assert (len(first.runtime.processes()), register.incarnations[AGENT]) == (0, 2)
    await comes_true(lambda: len(second.runtime.processes()) == 1)
    for agent in (first, second):
        await agent.stop()
        await agent.runtime.close()


async def test_an_agent_with_a_wrong_token_is_refused(root: Path, manager: Manager) -> None:
    agent = Agent(root, ManagerAddress(manager.address.url, "wrong"))
    await comes_true(lambda: any("who are you?" in line for line in agent.logged))

    assert not manager.agents.connected(AGENT)
    await agent.stop()


async def test_a_kernel_that_cannot_be_ended_is_never_said_to_be_gone(agent: Agent, manager: Manager) -> None:
    agent.runtime.stops_nothing = True
    await manager.agents.create_kernel(AGENT, 1, launch("k1"))
    for _ in range(5):
        assert not (await manager.agents.stop_kernel(AGENT, 1, K1, 1, grace_s=0.0)).gone
    with pytest.raises(AgentRefused, match="stopping"):
        await manager.agents.create_kernel(AGENT, 1, launch("k1"))
    with pytest.raises(AgentRefused, match="attempt-live"):
        await manager.agents.create_kernel(AGENT, 1, launch("k1", attempt=2))
    agent.runtime.stops_nothing = False

    assert (await stopped(manager, incarnation=1)).gone


@pytest.mark.usefixtures("agent")
async def test_a_request_that_is_too_large_is_refused_before_it_is_sent(manager: Manager) -> None:
    with pytest.raises(AgentRefused, match="the limit is"):
        await manager.agents.create_kernel(AGENT, 1, launch("k1", "x" * (2 << 20)))

    await manager.agents.create_kernel(AGENT, 1, launch("k1"))
