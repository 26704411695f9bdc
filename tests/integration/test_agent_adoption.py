"""Agents killed with -9 on real processes: kernels go on, ends are reported, nothing runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.domain.ids import KernelId
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.ports.runtime import KernelState
from tests.integration.agent_rig import AGENT, Manager, Register, agent_process, comes_true, launch
from tests.kernels import runtime_in

READY_S = 180.0


@pytest.fixture
def register() -> Register:
    return Register()


@pytest.fixture
async def manager(register: Register) -> AsyncIterator[Manager]:
    ready = Manager(register)
    await ready.start()
    yield ready
    await ready.stop()


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    """A second runtime on the same machine; ends everything that runs on it."""
    async with runtime_in(tmp_path / "machine") as ready:
        yield ready


@asynccontextmanager
async def agent(root: Path, manager: Manager, *, incarnation: int) -> AsyncIterator[asyncio.subprocess.Process]:
    async with agent_process(root, manager, kind="process") as process:
        await comes_true(lambda: manager.agents.incarnation(AGENT) == incarnation)
        yield process


async def killed(process: asyncio.subprocess.Process, manager: Manager) -> None:
    process.kill()
    await process.wait()
    await comes_true(lambda: not manager.agents.connected(AGENT))


async def test_running_kernels_are_adopted_ended_ones_reported_and_none_lost(
    tmp_path: Path, manager: Manager, register: Register, runtime: ProcessRuntime
) -> None:
    lasting = [f"k{number}" for number in range(5)]
    async with agent(tmp_path, manager, incarnation=1) as process:
        for name in lasting:
            await manager.agents.create_kernel(AGENT, 1, launch(name, "sleep", "600", image="host", cpu=100))
        ends = "while [ ! -e go ]; do sleep 0.02; done; exit 3"
        await manager.agents.create_kernel(AGENT, 1, launch("ends", "sh", "-c", ends, image="host", cpu=100))
        await comes_true(lambda: all((report := manager.report(name)) and report.running for name in lasting))
        await killed(process, manager)
    before = {seen.kernel_id: seen.started_ms for seen in await runtime.observe()}
    (tmp_path / "machine" / "kernels" / "ends-1" / "work" / "go").touch()
    await ended(runtime, "ends")
    async with agent(tmp_path, manager, incarnation=2):
        hello = register.hellos[-1]
        assert hello.incarnation == 0
        reported = {entry.kernel_id: (entry.attempt, entry.running, entry.exit_code) for entry in hello.kernels}
        assert reported == {"ends": (1, False, 3), **dict.fromkeys(lasting, (1, True, None))}
        await comes_true(lambda: manager.states[AGENT].incarnation == 2)
        assert {(report.kernel_id, report.running) for report in manager.states[AGENT].kernels} == {
            ("ends", False),
            *((name, True) for name in lasting),
        }
        assert {seen.kernel_id: seen.started_ms for seen in await runtime.observe()} == before, "one was started anew"
        gone = await manager.agents.stop_kernel(AGENT, 2, KernelId("ends"), 1, grace_s=1.0)
        assert (gone.gone, gone.exit_code) == (True, 3)
        await manager.agents.stop_kernel(AGENT, 2, KernelId("k0"), 1, grace_s=0.0)
        await comes_true(lambda: (report := manager.report("k0")) and report.exit_code is not None)


async def ended(runtime: ProcessRuntime, name: str) -> None:
    clock = SystemClock()
    deadline = clock.monotonic_ms() + READY_S * 1000
    while {seen.kernel_id: seen.state for seen in await runtime.observe()}.get(
        KernelId(name)
    ) is not KernelState.EXITED:
        assert clock.monotonic_ms() < deadline, f"{name} does not end"
        await clock.sleep(0.02)


@pytest.mark.parametrize("after_ms", [0, 4, 8, 12, 16, 20, 25, 30, 40, 60])
async def test_an_agent_that_is_killed_while_a_kernel_starts_starts_it_once(
    tmp_path: Path, manager: Manager, runtime: ProcessRuntime, after_ms: int
) -> None:
    asked = launch("k1", "sh", "-c", "echo started; exec sleep 600", image="host")
    async with agent(tmp_path, manager, incarnation=1) as process:
        await manager.agents.create_kernel(AGENT, 1, launch("warm", "true", image="host"))
        creating = asyncio.ensure_future(manager.agents.create_kernel(AGENT, 1, asked))
        await SystemClock().sleep(after_ms / 1000)
        await killed(process, manager)
        await asyncio.gather(creating, return_exceptions=True)
        failure = creating.exception()
        assert failure is None or isinstance(failure, AgentUnreachable)
    async with agent(tmp_path, manager, incarnation=2):
        await manager.agents.create_kernel(AGENT, 2, asked)
        await comes_true(lambda: (report := manager.report("k1")) and report.running)

        async def output() -> bytes:
            return (await manager.agents.read_log(AGENT, KernelId("k1"), 1, offset=0, limit=100)).data

        while not await output():
            await SystemClock().sleep(0.01)
        assert await output() == b"started\n"
        assert [seen.kernel_id for seen in await runtime.observe() if seen.state is KernelState.RUNNING] == ["k1"]
