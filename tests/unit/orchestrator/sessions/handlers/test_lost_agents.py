"""Sessions on lost agents: ended, tried again, or left alone."""

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.session import EndPolicy, LostPolicy
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


async def test_agents_that_stay_away_are_lost_in_the_end_however_many_they_were() -> None:
    pace = Pace(patience=QUICK.patience, lost_s=4, brake=Brake(hold_s=120))
    async with OrchestratedCluster.open(pace=pace) as cluster:
        agents = [await cluster.agent(f"a{number}", slots=FOUR_CPUS) for number in range(4)]
        for number in range(4):
            policy = LostPolicy.REQUEUE if number % 2 else LostPolicy.END
            await cluster.submit(f"s{number}", slots=FOUR_CPUS, on_agent_lost=policy)
        await cluster.settle()
        for agent in agents:
            agent.goes_silent()
        await cluster.pass_time(100, step_s=2)
        assert [await cluster.status(f"s{number}") for number in range(4)] == ["running"] * 4
        assert cluster.telemetry.gauged("agents_held_back") == 4
        [told] = [entry for entry in await cluster.story("s0") if entry.change.code == "mass-loss"]
        assert told.times > 1
        assert "4 of 4 agents" in told.change.detail
        await cluster.pass_time(60, step_s=2)
        assert [(await cluster.session(f"s{number}")).cause for number in range(4)] == ["agent-lost"] * 4
        assert cluster.telemetry.gauged("agents_held_back") == 0
        assert cluster.telemetry.counted("mass_losses_total") == 1


async def test_agents_that_come_back_are_no_longer_held_back() -> None:
    async with OrchestratedCluster.open(pace=QUICK) as cluster:
        agents = [await cluster.agent(f"a{number}", slots=FOUR_CPUS) for number in range(4)]
        for agent in agents:
            agent.goes_silent()
        await cluster.pass_time(10)
        assert cluster.telemetry.gauged("agents_held_back") == 4
        for agent in agents:
            await agent.connect()
        await cluster.pass_time(2)
        assert cluster.telemetry.gauged("agents_held_back") == 0


async def test_a_session_that_somebody_else_moved_meanwhile_is_not_set_aside() -> None:
    async with OrchestratedCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s", on_agent_lost=LostPolicy.REQUEUE)
        await cluster.settle()
        before = await cluster.session("s")
        await cluster.stop("s")
        await cluster.settle()
        shop = cluster.coordinator._shop
        assert not await shop.crew._lost._requeue([before], AgentId("a1"))
        assert shop.quarantine.take() == []
        assert "s" in shop.live.doubtful
