"""The manager in its own thread: it starts, is called from here, and stops."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.secret_box import AesSecretBox, SecretKey
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.agent.fake.shape import FleetShape
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.embedded import control_plane
from sokovan.entrypoints.embedded.background_tasks import ComponentEnded, Fatal
from sokovan.entrypoints.embedded.control_plane import ControlPlane
from sokovan.entrypoints.embedded.manager_runtime import ManagerOptions, ManagerRuntime, start_manager
from sokovan.orchestrator.sessions.config import Timing
from sokovan.testing.stored_cluster import StoredCluster

pytestmark = pytest.mark.slow


def manager_options(url: str, **changes: object) -> ManagerOptions:
    given: dict[str, object] = {
        "database": DatabaseSettings(url),
        "agent_token": "an-agent-key",
        "link_host": "127.0.0.1",
        "link_port": 0,
        "telemetry": PrometheusTelemetry(),
        "secrets": AesSecretBox(lambda: [SecretKey.new()]),
        "log": lambda _line: None,
        "timing": Timing(),
        **changes,
    }
    return ManagerOptions(**given)  # type: ignore[arg-type]  # a test names the few fields that matter to it


@pytest.fixture
async def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'state.db'}"
    database = Database(DatabaseSettings(found), clock=SystemClock())
    await migration.upgrade(database)
    await database.close()
    return found


async def test_a_session_submitted_here_runs_on_a_fake_agent_there(url: str) -> None:
    plane = ControlPlane(manager_options(url, fake_agents=FleetShape(count=2, gpus=1)))
    try:
        ports = await asyncio.wrap_future(plane.start())
        subscription = await ports.events.subscribe(group="test", consumer="one")
        async with StoredCluster.open(url) as cluster:
            await cluster.submit("s1", slots={"cuda.device": 1})
            ports.nudge()
            await ports.hints.set("sessions")
            async with asyncio.timeout(180):
                while (await cluster.session("s1")).status != "running":
                    await subscription.receive(limit=100, wait_s=0.2)
    finally:
        await asyncio.to_thread(plane.stop)


async def test_agents_connect_to_the_reported_port(url: str) -> None:
    plane = ControlPlane(manager_options(url))
    try:
        ports = await asyncio.wrap_future(plane.start())
        _, writer = await asyncio.open_connection("127.0.0.1", ports.link_port)
        writer.close()
        await writer.wait_closed()
        assert ports.agent == ""
    finally:
        await asyncio.to_thread(plane.stop)


async def test_the_reason_of_a_failed_start_reaches_the_caller(url: str) -> None:
    async with asyncio.timeout(60):
        listener = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
        taken = listener.sockets[0].getsockname()[1]
        plane = ControlPlane(manager_options(url, link_port=taken, link_tries=1))
        with pytest.raises(OSError, match="address already in use"):
            await asyncio.wrap_future(plane.start())
        listener.close()
        await listener.wait_closed()
        await asyncio.to_thread(plane.stop)


async def test_the_agent_of_this_machine_is_linked_when_the_manager_is_ready(url: str, tmp_path: Path) -> None:
    def agent(manager: str) -> AgentOptions:
        return AgentOptions(manager, "an-agent-key", root=tmp_path / "agent", name="here")

    async with StoredCluster.open(url) as cluster:
        await cluster.put(ScalingGroup(ScalingGroupName("default")))
    plane = ControlPlane(manager_options(url, agent=agent))
    try:
        ports = await asyncio.wrap_future(plane.start())
        assert ports.gateway.connected(AgentId("here"))
        assert "NOT LINKED" not in ports.agent
    finally:
        await asyncio.to_thread(plane.stop)


async def test_an_agent_that_is_refused_says_why_when_the_manager_is_ready(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sokovan.entrypoints.embedded.background_tasks.LINK_TIMEOUT_S", 0.0)

    def agent(manager: str) -> AgentOptions:
        return AgentOptions(manager, "another-key", root=tmp_path / "agent", name="here")

    plane = ControlPlane(manager_options(url, agent=agent))
    try:
        ports = await asyncio.wrap_future(plane.start())
        assert "NOT LINKED" in ports.agent
        assert "refuses this agent" in ports.agent
    finally:
        await asyncio.to_thread(plane.stop)


async def test_the_end_of_a_started_manager_is_logged(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    real = start_manager

    async def fail() -> None:
        raise ZeroDivisionError("inside")

    async def frail(wanted: ManagerOptions, stack: AsyncExitStack, fatal: Fatal) -> ManagerRuntime:
        stack.push_async_callback(fail)
        return await real(wanted, stack, fatal)

    monkeypatch.setattr(control_plane, "start_manager", frail)
    plane = ControlPlane(manager_options(url, log=logged.append))
    ports = await asyncio.wrap_future(plane.start())
    assert logged == []
    await asyncio.to_thread(plane.stop)
    ports.nudge()  # does not fail the writer
    assert logged == ["the manager has ended: ZeroDivisionError('inside')"]


async def test_the_end_of_a_part_of_the_manager_is_the_end_of_it_with_the_reason(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_options: ManagerOptions, stack: AsyncExitStack, fatal: Fatal) -> ManagerRuntime:
        runtime = await start_manager(manager_options(url), stack, fatal)
        asyncio.get_running_loop().call_later(0.01, fatal, ComponentEnded("the local agent has ended"))
        return runtime

    monkeypatch.setattr(control_plane, "start_manager", breaks)
    logged: list[str] = []
    plane = ControlPlane(manager_options(url, log=logged.append))
    await asyncio.wrap_future(plane.start())
    async with asyncio.timeout(60):
        with pytest.raises(ComponentEnded, match="the local agent has ended"):
            await asyncio.wrap_future(plane.ended)
    assert any("the local agent" in line for line in logged)
    await asyncio.to_thread(plane.stop)


async def test_a_manager_that_is_stopped_has_not_ended_by_itself(url: str) -> None:
    plane = ControlPlane(manager_options(url))
    await asyncio.wrap_future(plane.start())
    await asyncio.to_thread(plane.stop)
    assert not plane.ended.done()
