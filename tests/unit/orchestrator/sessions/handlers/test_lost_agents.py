"""Sessions on lost agents: ended, tried again, or left alone."""

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.session import EndPolicy
from sokovan.orchestrator.sessions.handlers.lost_agents import Brake
from sokovan.orchestrator.sessions.handlers.silence import Patience
from sokovan.orchestrator.sessions.parts import Pace
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

FOUR_CPUS = {"cpu": 4000, "mem": 8 << 30}
QUICK = Pace(patience=Patience(suspect_s=3, lost_s=3), lost_s=4)


async def test_a_gang_with_one_kernel_on_a_lost_agent_ends_everywhere() -> None:
    async with OrchestratedCluster.open(pace=QUICK) as cluster:
        lost, other = await cluster.agent("a1", slots=FOUR_CPUS), await cluster.agent("a2", slots=FOUR_CPUS)
        await cluster.submit("gang", kernels=2, slots=FOUR_CPUS, ends_with=EndPolicy.ALL)
        await cluster.settle()
        lost.goes_silent()
        await cluster.pass_time(14)
        session = await cluster.session("gang")
        assert (session.status.value, session.cause, session.cause_detail) == (
            "terminating", "agent-lost", "agent a1 is lost",
        )  # fmt: skip
        assert other.running() == []
        assert await cluster.used("a2") == {}
        assert await cluster.used("a1") == FOUR_CPUS
        await lost.connect()
        await cluster.pass_time(2)
        assert await cluster.status("gang") == "terminated"


async def test_an_agent_that_comes_back_in_time_keeps_its_sessions() -> None:
    async with OrchestratedCluster.open(pace=QUICK) as cluster:
        agent = await cluster.agent("a1")
        await cluster.submit("s")
        await cluster.settle()
        agent.goes_silent()
        await cluster.pass_time(8)
        found = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))
        assert found.info.status is AgentStatus.LOST
        await agent.connect()
        await cluster.pass_time(10)
        assert await cluster.status("s") == "running"


async def test_a_loss_of_few_among_many_is_no_mass_loss() -> None:
    pace = Pace(patience=QUICK.patience, lost_s=4, brake=Brake(share=0.3, agents_min=4))
    async with OrchestratedCluster.open(pace=pace) as cluster:
        agents = [await cluster.agent(f"a{number}", slots=FOUR_CPUS) for number in range(4)]
        for number in range(4):
            await cluster.submit(f"s{number}", slots=FOUR_CPUS)
        await cluster.settle()
        agents[0].goes_silent()
        await cluster.pass_time(14)
        statuses = [await cluster.status(f"s{number}") for number in range(4)]
        assert sorted(statuses) == ["running", "running", "running", "terminating"]
        assert cluster.telemetry.counted("mass_losses_total") == 0


async def test_a_new_leader_that_finds_many_lost_ends_nothing() -> None:
    async with OrchestratedCluster.open(pace=QUICK) as cluster:
        agents = [await cluster.agent(f"a{number}", slots=FOUR_CPUS) for number in range(4)]
        for number in range(4):
            await cluster.submit(f"s{number}", slots=FOUR_CPUS)
        await cluster.settle()
        for agent in agents[:2]:
            agent.goes_silent()
        await cluster.pass_time(9)
        await cluster.takes_over()
        await cluster.pass_time(20)
        assert [await cluster.status(f"s{number}") for number in range(4)] == ["running"] * 4
