"""Sessions on lost agents: ended, tried again, or left alone."""

from typing import Any

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.records import SessionRecord
from sokovan.domain.session import EndPolicy, LostPolicy
from sokovan.orchestrator.sessions.config import HeartbeatTimeouts, MassFailureGuard, Timing
from sokovan.orchestrator.sessions.handlers.lost_agents import EndLostSessions
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER

pytestmark = pytest.mark.slow

FOUR_CPUS = {"cpu": 4000, "mem": 8 << 30}
QUICK = Timing(heartbeats=HeartbeatTimeouts(suspect_s=3, lost_s=3), session_lost_s=4)


def lost_agents_of(cluster: OrchestratedCluster) -> EndLostSessions:
    [handler] = [one for one in cluster.coordinator._sweep._handlers if isinstance(one, EndLostSessions)]
    return handler


async def test_a_gang_with_one_kernel_on_a_lost_agent_ends_everywhere() -> None:
    async with OrchestratedCluster.open(timing=QUICK) as cluster:
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
    async with OrchestratedCluster.open(timing=QUICK) as cluster:
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
    timing = Timing(
        heartbeats=QUICK.heartbeats, session_lost_s=4, mass_failures=MassFailureGuard(share=0.3, agents_min=4)
    )
    async with OrchestratedCluster.open(timing=timing) as cluster:
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
    async with OrchestratedCluster.open(timing=QUICK) as cluster:
        agents = [await cluster.agent(f"a{number}", slots=FOUR_CPUS) for number in range(4)]
        for number in range(4):
            await cluster.submit(f"s{number}", slots=FOUR_CPUS)
        await cluster.settle()
        for agent in agents[:2]:
            agent.goes_silent()
        await cluster.pass_time(9)
        await cluster.fail_over()
        await cluster.pass_time(20)
        assert [await cluster.status(f"s{number}") for number in range(4)] == ["running"] * 4


async def test_agents_that_stay_away_are_lost_in_the_end_however_many_they_were() -> None:
    timing = Timing(heartbeats=QUICK.heartbeats, session_lost_s=4, mass_failures=MassFailureGuard(hold_s=120))
    async with OrchestratedCluster.open(timing=timing) as cluster:
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
        [note] = [entry for entry in await cluster.history("s0") if entry.change.code == "mass-loss"]
        assert note.times > 1
        assert "4 of 4 agents" in note.change.detail
        await cluster.pass_time(60, step_s=2)
        assert [(await cluster.session(f"s{number}")).cause for number in range(4)] == ["agent-lost"] * 4
        assert cluster.telemetry.gauged("agents_held_back") == 0
        assert cluster.telemetry.counted("mass_losses_total") == 1


async def test_agents_that_come_back_are_no_longer_held_back() -> None:
    async with OrchestratedCluster.open(timing=QUICK) as cluster:
        agents = [await cluster.agent(f"a{number}", slots=FOUR_CPUS) for number in range(4)]
        for agent in agents:
            agent.goes_silent()
        await cluster.pass_time(10)
        assert cluster.telemetry.gauged("agents_held_back") == 4
        for agent in agents:
            await agent.connect()
        await cluster.pass_time(2)
        assert cluster.telemetry.gauged("agents_held_back") == 0


async def test_who_waits_for_a_session_that_is_tried_again_waits_for_its_successor() -> None:
    async with OrchestratedCluster.open(timing=QUICK) as cluster:
        lost = await cluster.agent("a1", slots=FOUR_CPUS)
        await cluster.submit("first", name="train", slots=FOUR_CPUS, on_agent_lost=LostPolicy.REQUEUE)
        await cluster.submit("second", slots=FOUR_CPUS, dependencies=(SessionId("first"),))
        await cluster.settle()
        lost.goes_silent()
        await cluster.pass_time(14)
        second = await cluster.session("second")
        [successor] = second.spec.dependencies
        assert (second.status.value, successor != "first") == ("pending", True)
        other = await cluster.agent("a2", slots=FOUR_CPUS)
        await cluster.pass_time(2)
        [kernel] = (await cluster.session(successor)).kernels
        await other.ends(kernel.kernel_id, 0)
        await cluster.pass_time(4)
        assert await cluster.status("second") == "running"


async def test_who_waits_for_a_successor_leaves_if_that_fails() -> None:
    async with OrchestratedCluster.open(timing=QUICK) as cluster:
        lost = await cluster.agent("a1", slots=FOUR_CPUS)
        await cluster.submit("first", slots=FOUR_CPUS, on_agent_lost=LostPolicy.REQUEUE)
        await cluster.submit("second", slots=FOUR_CPUS, dependencies=(SessionId("first"),))
        await cluster.settle()
        lost.goes_silent()
        await cluster.pass_time(14)
        [successor] = (await cluster.session("second")).spec.dependencies
        await cluster.stop(successor)
        await cluster.pass_time(4)
        second = await cluster.session("second")
        assert (second.status.value, second.cause) == ("cancelled", "dependency-failed")
        assert successor in (second.cause_detail or "")


async def test_a_session_that_changed_concurrently_is_not_quarantined() -> None:
    async with OrchestratedCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s", on_agent_lost=LostPolicy.REQUEUE)
        await cluster.settle()
        before = await cluster.session("s")
        await cluster.stop("s")
        await cluster.settle()
        context = cluster.coordinator._context
        assert not await lost_agents_of(cluster)._requeue([before], AgentId("a1"))
        assert context.quarantine.take() == []
        assert "s" in context.sessions.stale


async def all_lost(cluster: OrchestratedCluster, **options: Any) -> None:
    """Four agents with a session each are lost together, so that their sessions are kept for a while."""
    agents = [await cluster.agent(f"a{number}", slots=FOUR_CPUS) for number in range(4)]
    for number in range(4):
        await cluster.submit(f"s{number}", slots=FOUR_CPUS, **options)
    await cluster.settle()
    for agent in agents:
        agent.goes_silent()
    await cluster.pass_time(20)
    assert [await cluster.status(f"s{number}") for number in range(4)] == ["running"] * 4


async def session_on(cluster: OrchestratedCluster, agent: str) -> SessionRecord:
    [kernel] = await cluster.store.read(lambda unit: unit.ledger.kernels_on(AgentId(agent)))
    return await cluster.session(kernel.session_id)


async def test_sessions_of_a_removed_agent_end_at_once_even_in_a_mass_loss() -> None:
    async with OrchestratedCluster.open(timing=QUICK) as cluster:
        await all_lost(cluster)
        session = await session_on(cluster, "a1")
        record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))
        await cluster.store.run(lambda unit: unit.fleet.move(record, AgentTrigger.DECLARED_GONE, BY_USER))
        await cluster.pass_time(2)
        ended = await cluster.session(session.session_id)
        assert (ended.status.value, ended.cause) == ("terminated", "agent-lost")
        assert await cluster.used("a1") == {}
        statuses = sorted([await cluster.status(f"s{number}") for number in range(4)])
        assert statuses == ["running", "running", "running", "terminated"]


async def test_who_came_back_without_its_kernels_and_was_lost_again_holds_nothing() -> None:
    async with OrchestratedCluster.open(timing=QUICK) as cluster:
        await all_lost(cluster, on_agent_lost=LostPolicy.REQUEUE)
        session = await session_on(cluster, "a1")

        async def comes_and_goes(unit: UnitOfWork) -> None:
            known = await unit.fleet.get(AgentId("a1"))
            agent = await unit.fleet.enrol(known.info, BY_AGENT)
            agent = await unit.fleet.move(agent, AgentTrigger.HEARTBEAT_MISSED, BY_COORDINATOR)
            await unit.fleet.move(agent, AgentTrigger.DECLARED_LOST, BY_COORDINATOR)

        await cluster.store.run(comes_and_goes)
        await cluster.pass_time(2)
        ended = await cluster.session(session.session_id)
        assert (ended.status.value, ended.cause) == ("terminated", "agent-lost")
        assert await cluster.used("a1") == {}
        page = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=9))
        assert sorted(one.status.value for one in page) == ["pending", "running", "running", "running", "terminated"]


async def test_what_an_agent_found_again_before_it_was_lost_is_waited_for() -> None:
    async with OrchestratedCluster.open() as cluster:
        agent = await cluster.agent("a1")
        await cluster.submit("found")
        await cluster.submit("missing")
        await cluster.settle()
        agent.goes_silent()

        async def comes_and_goes(unit: UnitOfWork) -> None:
            known = await unit.fleet.get(AgentId("a1"))
            back = await unit.fleet.enrol(known.info, BY_AGENT, adopted=[(KernelId("found.0"), 1)])
            suspect = await unit.fleet.move(back, AgentTrigger.HEARTBEAT_MISSED, BY_COORDINATOR)
            await unit.fleet.move(suspect, AgentTrigger.DECLARED_LOST, BY_COORDINATOR)

        await cluster.store.run(comes_and_goes)
        await cluster.pass_time(3)
        assert await cluster.status("found") == "running"
        assert await cluster.status("missing") == "terminated"
