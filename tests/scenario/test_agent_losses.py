"""Agents fall silent, come back, restart, lose their machine; sessions survive what they can."""

import pytest

from sokovan.agent.journal_records import KernelKey
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.session import EndPolicy, LostPolicy
from sokovan.orchestrator.agent_registry import AgentAdmission, AgentRejection
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.runtime import KernelState
from sokovan.testing.acting_agents import Acted, Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import BY_USER, release
from sokovan.wire.frames import CreateKernel

pytestmark = pytest.mark.slow  # many cycles through the store per test

FOUR_CPUS = {"cpu": 4000, "mem": 8 << 30}


async def agent_status(cluster: OrchestratedCluster, name: str) -> AgentStatus:
    record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId(name)))
    return record.info.status


async def test_silence_makes_an_agent_suspect_then_lost_and_a_word_brings_it_back(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.settle()
    agent.speaking = False
    await cluster.pass_time(14)
    assert await agent_status(cluster, "a1") is AgentStatus.ALIVE
    await cluster.pass_time(2)
    assert await agent_status(cluster, "a1") is AgentStatus.SUSPECT
    await cluster.pass_time(46)
    assert await agent_status(cluster, "a1") is AgentStatus.LOST
    agent.speaking = True
    await cluster.pass_time(1)
    assert await agent_status(cluster, "a1") is AgentStatus.ALIVE


async def test_a_short_silence_moves_no_session(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.goes_silent()
    await cluster.pass_time(50)
    assert await agent_status(cluster, "a1") is AgentStatus.SUSPECT
    await agent.connect()
    await cluster.pass_time(5)
    assert await agent_status(cluster, "a1") is AgentStatus.ALIVE
    assert await cluster.status("s") == "running"
    assert agent.running() == ["s.0"]


async def test_an_agent_that_was_being_drained_comes_back_draining(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.settle()
    record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))
    await cluster.store.run(lambda unit: unit.fleet.move(record, AgentTrigger.DRAIN_REQUESTED, BY_USER))
    agent.speaking = False
    await cluster.pass_time(62)
    assert await agent_status(cluster, "a1") is AgentStatus.LOST
    agent.speaking = True
    await cluster.pass_time(1)
    assert await agent_status(cluster, "a1") is AgentStatus.DRAINING


async def test_a_new_leader_gives_agents_time_to_speak(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.settle()
    agent.speaking = False
    await cluster.pass_time(14)
    await cluster.coordinator.close()
    cluster.coordinator = cluster.new_coordinator()
    await cluster.pass_time(14)
    assert await agent_status(cluster, "a1") is AgentStatus.ALIVE


async def test_a_restarted_agent_keeps_its_kernels(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s", kernels=2, ends_with=EndPolicy.ALL)
    await cluster.settle()
    before = agent.incarnation
    await agent.restart()
    await cluster.settle()
    session = await cluster.session("s")
    assert agent.incarnation == before + 1
    assert session.status is SessionStatus.RUNNING
    assert [kernel.incarnation for kernel in session.kernels] == [before + 1] * 2
    await agent.ends("s.0", 0)
    await agent.ends("s.1", 0)
    await cluster.settle()
    assert await cluster.status("s") == "terminated"


async def test_kernels_of_an_agent_whose_journal_was_lost_are_claimed_and_go_on(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    await agent.restart(journal_lost=True)
    await cluster.pass_time(40)
    assert await cluster.status("s") == "running"
    assert agent.running() == ["s.0"]
    assert sum(agent.started.values()) == 1


async def test_a_creation_that_an_agent_wrote_down_and_died_at_is_asked_for_again(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    agent.script.slow = True
    await cluster.submit("s")
    await cluster.settle()
    agent.machine.clear()  # it was in the journal, and not yet on the machine
    agent.started.clear()
    agent.script.slow = False
    await agent.restart()
    await cluster.pass_time(3)
    assert await cluster.status("s") == "running"
    assert sum(agent.started.values()) == 1


async def test_kernels_that_ended_while_no_agent_was_there_are_noticed(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.goes_silent()
    await agent.ends("s.0", 5)
    await agent.restart()
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status.value, session.kernels[0].exit_code) == ("terminated", 5)
    assert await cluster.used("a1") == {}


async def test_manager_and_agent_may_restart_together(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.goes_silent()
    await cluster.fail_over()
    await cluster.settle()
    await agent.restart()
    await cluster.pass_time(12)
    assert await cluster.status("s") == "running"
    assert sum(agent.started.values()) == 1


@pytest.mark.parametrize("state", ["preparing", "pulling", "creating"])
async def test_a_start_goes_on_after_the_agent_has_restarted(cluster: OrchestratedCluster, state: str) -> None:
    agent = await cluster.agent("a1")
    if state == "preparing":
        agent.faults["prepare"] = Fault.REQUEST_LOST
    if state == "creating":
        agent.faults["create"] = Fault.REQUEST_LOST
    agent.script.pulls = {"python"} if state == "pulling" else set()
    await cluster.submit("s")
    await cluster.settle()
    assert await cluster.status("s") == state
    agent.faults.clear()
    agent.script.pulls = set()
    await agent.restart()
    await cluster.pass_time(12)
    assert await cluster.status("s") == "running"
    assert sum(agent.started.values()) == 1


async def test_a_machine_that_forgot_everything_loses_its_kernels_and_frees_what_they_held(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.loses_its_machine()
    await agent.connect()
    await cluster.settle()
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", "kernel-lost")
    assert await cluster.used("a1") == {}


async def test_a_stop_that_was_answered_before_a_restart_is_proved_after_it(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.faults["stop"] = Fault.ANSWER_LOST
    await cluster.stop("s")
    await cluster.settle()
    agent.faults.clear()
    await agent.restart()
    await cluster.pass_time(2)
    assert await cluster.status("s") == "terminated"
    assert await cluster.used("a1") == {}


async def test_a_session_on_an_agent_lost_for_good_ends_and_holds_until_there_is_a_proof(
    cluster: OrchestratedCluster,
) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.goes_silent()
    await cluster.pass_time(119)
    assert await cluster.status("s") == "running"
    await cluster.pass_time(5)
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminating", "agent-lost")
    assert await cluster.used("a1") == {"cpu": 1000, "mem": 1 << 30}
    await agent.connect()
    await cluster.pass_time(2)
    assert await cluster.status("s") == "terminated"
    assert agent.running() == []
    assert await cluster.used("a1") == {}


async def test_a_host_that_an_operator_declares_gone_frees_everything(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    agent.goes_silent()
    await cluster.pass_time(130)
    record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))
    await cluster.store.run(lambda unit: unit.fleet.move(record, AgentTrigger.DECLARED_GONE, BY_USER))
    await cluster.settle()
    assert await cluster.status("s") == "terminated"
    assert await cluster.used("a1") == {}
    verdict = await agent.restart()
    assert isinstance(verdict, AgentRejection)
    assert verdict.final


async def test_a_session_that_may_be_tried_again_is_enqueued_anew(cluster: OrchestratedCluster) -> None:
    lost = await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.submit("s", name="train", slots=FOUR_CPUS, on_agent_lost=LostPolicy.REQUEUE)
    await cluster.settle()
    spare = await cluster.agent("a2", slots=FOUR_CPUS)
    lost.goes_silent()
    await cluster.pass_time(125)
    old = await cluster.session("s")
    assert (old.status.value, old.cause) == ("terminated", "agent-lost")
    page = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(name="train"), limit=10))
    [new] = [record for record in page if record.session_id != "s"]
    assert new.status is SessionStatus.RUNNING
    assert spare.running() == [new.kernels[0].kernel_id]
    history = await cluster.history(new.session_id)
    assert history[0].change.code == "requeued"
    assert "it replaces s," in history[0].change.detail
    assert await cluster.used("a1") == {"cpu": 4000, "mem": 8 << 30}
    await lost.connect()
    await cluster.pass_time(5)
    assert lost.running() == []
    assert await cluster.used("a1") == {}


async def test_a_session_that_replaces_a_released_one_is_not_held(cluster: OrchestratedCluster) -> None:
    lost = await cluster.agent("a1")
    await cluster.submit("s", name="train", gates=("data",), on_agent_lost=LostPolicy.REQUEUE)
    await release(cluster.store, "s", "data")
    await cluster.settle()
    await cluster.agent("a2")
    lost.goes_silent()
    await cluster.pass_time(125)
    page = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(name="train"), limit=10))
    [new] = [record for record in page if record.session_id != "s"]
    assert (new.status, new.spec.gates) == (SessionStatus.RUNNING, ())


async def test_when_many_agents_are_lost_together_no_session_is_ended(cluster: OrchestratedCluster) -> None:
    agents = [await cluster.agent(f"a{number}", slots=FOUR_CPUS) for number in range(5)]
    for number in range(5):
        await cluster.submit(f"s{number}", slots=FOUR_CPUS)
    await cluster.settle()
    for agent in agents[:2]:
        agent.goes_silent()
    await cluster.pass_time(200, step_s=2)
    assert [await cluster.status(f"s{number}") for number in range(5)] == ["running"] * 5
    assert cluster.telemetry.counted("mass_losses_total") == 1
    recorded = [await cluster.codes(f"s{number}") for number in range(5)]
    assert sum("mass-loss" in codes for codes in recorded) == 2
    for agent in agents[:2]:
        await agent.connect()
    await cluster.pass_time(3)
    assert [await agent_status(cluster, f"a{number}") for number in range(5)] == [AgentStatus.ALIVE] * 5


async def test_an_orphan_kernel_is_stopped(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.settle()
    launch = CreateKernel(KernelId("stray"), 1, SessionId("old"), "python", ("work",))
    agent.machine[KernelKey.of(launch)] = Acted(launch, KernelState.RUNNING)
    agent.look()
    await agent.beat()
    await cluster.pass_time(12)
    assert agent.running() == []
    assert cluster.telemetry.counted("orphans_total") >= 1


async def test_the_output_of_ended_kernels_is_kept_for_an_hour(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.exits = lambda _launch: 0
    await cluster.submit("s")
    await cluster.settle()
    assert await cluster.status("s") == "terminated"
    await cluster.pass_time(12)
    await cluster.pass_time(3500, step_s=500)
    assert [key.kernel_id for key in agent.machine] == ["s.0"]
    await cluster.pass_time(200, step_s=10)
    assert agent.machine == {}


async def test_a_kernel_missing_from_one_report_is_not_lost_yet(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    kernel_table = agent.table
    agent.table = type(kernel_table)(
        kernel_table.agent_id,
        kernel_table.capacity,
        incarnation=kernel_table.incarnation,
        observed=True,
        tick=kernel_table.tick,
    )
    await cluster.pass_time(8)
    assert await cluster.status("s") == "running"
    agent.table = kernel_table
    await cluster.pass_time(8)
    assert await cluster.status("s") == "running"


async def test_a_kernel_missing_from_every_report_is_lost(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    kernel_table = agent.table
    agent.table = type(kernel_table)(
        kernel_table.agent_id,
        kernel_table.capacity,
        incarnation=kernel_table.incarnation,
        observed=True,
        tick=kernel_table.tick,
    )
    agent.machine.clear()
    await cluster.pass_time(15)
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", "kernel-lost")


async def test_an_older_process_of_an_agent_is_turned_away(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    old = agent.table
    await agent.restart()
    agent.table = old
    verdict = await agent.connect()
    assert isinstance(verdict, AgentRejection)
    assert (verdict.code, verdict.final) == ("superseded", True)


async def test_a_store_that_was_set_back_gives_an_incarnation_above_the_agents(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.table = type(agent.table)(agent.agent_id, agent.table.capacity, incarnation=7, observed=True)
    verdict = await agent.connect()
    assert verdict == AgentAdmission(8)


async def test_a_session_on_an_agent_that_never_came_back_is_placed_again(cluster: OrchestratedCluster) -> None:
    gone = await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.settle()
    gone.goes_silent()
    await cluster.fail_over()
    await cluster.submit("s", slots=FOUR_CPUS, retry=RetryPolicy(attempts=1))
    await cluster.settle()
    assert await cluster.status("s") == "preparing"
    spare = await cluster.agent("a2", slots=FOUR_CPUS)
    await cluster.pass_time(20)
    session = await cluster.session("s")
    assert (session.status, session.cause, spare.running()) == ("running", None, ["s.0"])
    assert [(one.agent_id, one.code) for one in session.failed_starts] == [("a1", "agent-unreachable")]
    assert await cluster.used("a1") == {}


async def test_without_another_agent_it_waits_and_starts_when_its_agent_is_back(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1", slots=FOUR_CPUS)
    await cluster.settle()
    agent.goes_silent()
    await cluster.submit("s", slots=FOUR_CPUS)
    await cluster.pass_time(200, step_s=2)
    assert await cluster.status("s") == "pending"
    await agent.connect()
    await cluster.pass_time(10)
    assert (await cluster.status("s"), agent.running()) == ("running", ["s.0"])
