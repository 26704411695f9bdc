"""Acting agents keep the promises of real ones."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, ImageState
from sokovan.testing.acting_agents import ActingAgent, Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.wire.frames import CreateKernel

A1 = AgentId("a1")


def launch(kernel_id: str = "k", cpu: int = 1000) -> CreateKernel:
    return CreateKernel(KernelId(kernel_id), 1, SessionId("s"), "python", ("work",), slots={"cpu": cpu})


@pytest.fixture
async def cluster() -> AsyncIterator[OrchestratedCluster]:
    async with OrchestratedCluster.open() as made:
        yield made


@pytest.fixture
async def agent(cluster: OrchestratedCluster) -> ActingAgent:
    return await cluster.agent("a1")


async def test_a_kernel_is_started_once_however_often_it_is_asked_for(
    cluster: OrchestratedCluster, agent: ActingAgent
) -> None:
    for _ in range(3):
        await cluster.agents.create_kernel(A1, 1, launch())
    assert (agent.running(), sum(agent.started.values())) == (["k"], 1)
    state = await cluster.cache.get(A1)
    assert state is not None
    assert [(report.kernel_id, report.running) for report in state.kernels] == [("k", True)]


async def test_what_does_not_fit_or_is_meant_for_another_is_refused(
    cluster: OrchestratedCluster, agent: ActingAgent
) -> None:
    with pytest.raises(AgentRefused) as refusal:
        await cluster.agents.create_kernel(A1, 1, launch(cpu=10**6))
    assert refusal.value.reason == "no-room"
    with pytest.raises(AgentRefused) as refusal:
        await cluster.agents.create_kernel(A1, 7, launch())
    assert refusal.value.reason == "other-incarnation"
    assert agent.running() == []


@pytest.mark.slow
async def test_a_stopped_kernel_is_gone_for_good(cluster: OrchestratedCluster, agent: ActingAgent) -> None:
    await cluster.agents.create_kernel(A1, 1, launch())
    first = await cluster.agents.stop_kernel(A1, 1, KernelId("k"), 1, grace_s=5)
    second = await cluster.agents.stop_kernel(A1, 1, KernelId("k"), 1, grace_s=5)
    assert (first.gone, second.gone, second.exit_code) == (False, True, 143)
    with pytest.raises(AgentRefused):
        await cluster.agents.create_kernel(A1, 1, launch())
    await cluster.agents.forget_kernel(A1, 1, KernelId("k"), 1)
    assert agent.machine == {}


@pytest.mark.slow
async def test_a_kernel_nobody_heard_of_is_gone_at_once(cluster: OrchestratedCluster, agent: ActingAgent) -> None:
    assert (await cluster.agents.stop_kernel(A1, 1, KernelId("k"), 1, grace_s=5)).gone
    assert agent.requests["stop"] == 1


async def test_a_lost_answer_is_lost_after_the_deed(cluster: OrchestratedCluster, agent: ActingAgent) -> None:
    agent.faults["create"] = Fault.ANSWER_LOST
    with pytest.raises(AgentUnreachable):
        await cluster.agents.create_kernel(A1, 1, launch())
    assert agent.running() == ["k"]
    agent.faults["create"] = Fault.REQUEST_LOST
    with pytest.raises(AgentUnreachable):
        await cluster.agents.create_kernel(A1, 1, launch("other"))
    assert agent.running() == ["k"]


@pytest.mark.slow
async def test_silence_ends_requests_that_wait(cluster: OrchestratedCluster, agent: ActingAgent) -> None:
    agent.script.slow = True
    asking = asyncio.ensure_future(cluster.agents.create_kernel(A1, 1, launch()))
    await cluster.clock.advance(0)
    assert not asking.done()
    agent.goes_silent()
    with pytest.raises(AgentUnreachable):
        await asking
    assert not cluster.agents.connected(A1)


@pytest.mark.slow
async def test_a_restart_adopts_what_runs_and_a_lost_machine_has_nothing(
    cluster: OrchestratedCluster, agent: ActingAgent
) -> None:
    await cluster.agents.create_kernel(A1, 1, launch())
    await agent.restart()
    assert (agent.incarnation, agent.running()) == (2, ["k"])
    agent.loses_its_machine()
    await agent.connect()
    assert (agent.incarnation, agent.running()) == (3, [])


@pytest.mark.slow
async def test_images_follow_the_script(cluster: OrchestratedCluster, agent: ActingAgent) -> None:
    agent.script.pulls, agent.script.broken = {"slow"}, {"bad": "unknown"}
    states = [(await cluster.agents.prepare_image(A1, 1, image)).state for image in ("good", "slow", "bad")]
    assert states == [ImageState.READY, ImageState.PULLING, ImageState.FAILED]
    await agent.pulled("slow")
    assert (await cluster.agents.prepare_image(A1, 1, "slow")).state is ImageState.READY


async def test_nobody_is_there_before_they_join(cluster: OrchestratedCluster) -> None:
    with pytest.raises(AgentUnreachable):
        await cluster.agents.prepare_image(AgentId("nobody"), 1, "python")
    assert not cluster.agents.connected(AgentId("nobody"))
    part = await cluster.agents.read_log(A1, KernelId("k"), 1, offset=3, limit=10)
    assert (part.offset, part.data, part.end) == (3, b"", True)
    assert (await cluster.agents.measure(A1, KernelId("k"), 1)).cpu_ms is None
    with pytest.raises(AgentRefused):
        cluster.agents.execute(A1, KernelId("k"), 1, ["ls"], terminal=False)
