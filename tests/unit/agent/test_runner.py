"""The parts of an agent put together; tests/integration has complete runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.agent import machine
from sokovan.agent.link.manager_addresses import ManagerAddresses
from sokovan.agent.link.manager_link import ManagerAddress
from sokovan.domain.ids import KernelId
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.agent_states import DeviceFigures
from sokovan.wire.frames import DeviceLoad
from tests.integration.agent_rig import AGENT, TOKEN, Agent, Manager, Register, comes_true, launch


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    ready = Manager(Register())
    await ready.start()
    yield ready
    await ready.stop()


@pytest.fixture
async def agent(tmp_path: Path, manager: Manager) -> AsyncIterator[Agent]:
    ready = Agent(tmp_path, manager.address)
    await comes_true(lambda: manager.agents.connected(AGENT))
    yield ready
    await ready.stop()
    await ready.runtime.close()


async def test_an_agent_presents_its_machine_and_no_incarnation_at_first(tmp_path: Path) -> None:
    register = Register()
    manager = Manager(register)
    await manager.start()
    agent = Agent(tmp_path, manager.address)
    await comes_true(lambda: AGENT in manager.states)
    [hello] = register.hellos

    assert (hello.incarnation, hello.slots) == (0, {"cpu": 4000, "cuda.device": 2})
    assert agent.runner.hello().incarnation == 1
    await agent.stop()
    await manager.stop()


async def test_every_heartbeat_has_a_number_of_its_own(agent: Agent) -> None:
    first, second = agent.runner.heartbeat(), agent.runner.heartbeat()

    assert second.sequence == first.sequence + 1
    assert second.load["disk_free_bytes"] > 0


async def test_figures_of_devices_are_in_the_heartbeats_after_they_were_measured(agent: Agent) -> None:
    assert agent.runner.heartbeat().devices == {}
    agent.runner.devices_measured({"gpu0": DeviceFigures(use_percent=80)})
    assert agent.runner.heartbeat().devices == {"gpu0": DeviceLoad(use_percent=80)}
    agent.runner.devices_measured({})
    assert agent.runner.heartbeat().devices == {}


async def test_the_load_of_the_machine_is_not_read_for_each_heartbeat(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def counted(root: Path) -> dict[str, int]:
        reads.append(root)
        return {"load_milli": len(reads)}

    monkeypatch.setattr(machine, "load_figures", counted)
    monkeypatch.setattr(agent.runner, "_load_due_ms", 0)
    loads = [agent.runner.heartbeat().load for _ in range(3)]

    assert loads == [{"load_milli": 1}] * 3


@pytest.mark.slow
async def test_an_agent_that_was_drained_when_it_dialled_starts_what_its_manager_asks_for(tmp_path: Path) -> None:
    register = Register()
    register.draining = True
    manager = Manager(register)
    await manager.start()
    agent = Agent(tmp_path, manager.address)
    await comes_true(lambda: manager.agents.connected(AGENT))
    register.draining = False
    await manager.agents.create_kernel(AGENT, 1, launch("k1"))
    await agent.stop()
    await agent.runtime.close()
    await manager.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("agent")
async def test_a_disk_that_fills_up_stops_new_kernels_and_only_those(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.agents.create_kernel(AGENT, 1, launch("k1"))
    with monkeypatch.context() as full:
        full.setattr(machine, "disk_obstacle", lambda _root: "1 MiB free")
        with pytest.raises(AgentRefused, match="1 MiB free"):
            await manager.agents.create_kernel(AGENT, 1, launch("k2"))
        await manager.agents.create_kernel(AGENT, 1, launch("k1"))

    await manager.agents.create_kernel(AGENT, 1, launch("k2"))


@pytest.mark.usefixtures("agent")
async def test_output_of_a_kernel_that_is_not_here_is_refused(manager: Manager) -> None:
    with pytest.raises(AgentRefused, match="is not here"):
        await manager.agents.read_log(AGENT, KernelId("k9"), 1, offset=0, limit=10)


async def test_a_failure_of_the_runtime_is_answered(
    agent: Agent, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object, **_more: object) -> None:
        raise OSError("a broken disk")

    monkeypatch.setattr(agent.runtime, "read_log", broken)
    with pytest.raises(AgentRefused, match="a broken disk"):
        await manager.agents.read_log(AGENT, KernelId("k1"), 1, offset=0, limit=10)


async def test_many_requests_at_once_are_all_answered(agent: Agent, manager: Manager) -> None:
    requests = [manager.agents.stop_kernel(AGENT, 1, KernelId(f"k{number}"), 1, grace_s=1.0) for number in range(200)]

    assert all(gone.gone for gone in await asyncio.gather(*requests))
    assert agent.runtime.processes() == []


@pytest.mark.slow
async def test_an_agent_links_to_a_manager_that_is_added_later_and_leaves_one_that_is_removed(tmp_path: Path) -> None:
    register = Register()
    first, second = Manager(register), Manager(register)
    await first.start()
    agent = Agent(tmp_path, addresses=ManagerAddresses([first.address], lambda url: ManagerAddress(url, TOKEN)))
    await comes_true(lambda: first.agents.connected(AGENT))
    await second.start()
    register.managers = (first.address.url, second.address.url)
    first.cut()  # the first manager is started anew, with a setting that names the second
    await comes_true(lambda: first.agents.connected(AGENT) and second.agents.connected(AGENT))
    register.managers = (second.address.url,)
    first.cut()
    second.cut()
    await comes_true(lambda: second.agents.connected(AGENT) and not first.agents.connected(AGENT))
    assert any("is no manager of this cluster any more" in line for line in agent.logged)
    await agent.stop()
    await agent.runtime.close()
    for manager in (first, second):
        await manager.stop()
