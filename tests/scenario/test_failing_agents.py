"""An agent that fails sessions gets no new ones until a probe succeeds on it."""

from typing import Any

import pytest

from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.owners.tenancy import Owner
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.testing.acting_agents import ActingAgent
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.wire.frames import CreateKernel

pytestmark = pytest.mark.slow  # many cycles through the store per test

PROBE = ("true",)
ONCE = RetryPolicy(attempts=1)


def probes_end(launch: CreateKernel) -> int | None:
    """The exit code of a probe; sessions run on."""
    return 0 if launch.command == PROBE else None


async def broken_agent(cluster: OrchestratedCluster, name: str = "a1") -> ActingAgent:
    """An agent that starts nothing."""
    agent = await cluster.agent(name)
    agent.script.exits, agent.script.start_problem = probes_end, "no space left on device"
    return agent


async def submit(cluster: OrchestratedCluster, id_: str, *, user: str = "", **options: Any) -> None:
    owner = Owner(user=user or f"user-{id_}")
    await cluster.submit(id_, owner=owner, **options)
    await cluster.settle()
    await cluster.pass_time(1)


async def submit_failing(cluster: OrchestratedCluster, *ids: str, **options: Any) -> None:
    """Submit sessions one by one; one that runs is stopped, so that the first agent is chosen again."""
    for id_ in ids:
        await submit(cluster, id_, **options)
        await cluster.stop(id_)
        await cluster.pass_time(1)


async def health(cluster: OrchestratedCluster, name: str = "a1") -> AgentHealth:
    return (await cluster.store.read(lambda unit: unit.fleet.get(AgentId(name)))).info.health


async def noted(cluster: OrchestratedCluster, name: str = "a1") -> list[str]:
    history = await cluster.store.read(lambda unit: unit.fleet.history(AgentId(name)))
    return [one.change.code for one in history if one.trigger == "noted"]


async def test_an_agent_that_fails_sessions_of_several_users_gets_no_more(cluster: OrchestratedCluster) -> None:
    await broken_agent(cluster)
    good = await cluster.agent("a2")
    await submit_failing(cluster, "s1", "s2", "s3")
    found = await health(cluster)
    assert found.is_failing
    assert [one.session_id for one in found.failures] == ["s1", "s2", "s3"]
    assert found.reason == "3 sessions in a row could not be started: creation-refused"
    await submit(cluster, "s4")
    assert (await cluster.session("s4")).attempt == 1
    assert good.running() == ["s4.0"]
    assert (await noted(cluster))[0] == "agent-failing"
    assert cluster.telemetry.gauged("agents_failing") == 1


async def test_it_gets_sessions_again_when_a_probe_succeeds(cluster: OrchestratedCluster) -> None:
    broken = await broken_agent(cluster)
    await cluster.agent("a2")
    await submit_failing(cluster, "s1", "s2", "s3")
    await cluster.pass_time(11)
    assert (await health(cluster)).is_failing
    assert (await noted(cluster))[-1] == "probe-failed"
    broken.script.start_problem = ""
    await cluster.pass_time(45)
    assert not (await health(cluster)).is_failing
    assert (await noted(cluster))[-1] == "agent-recovered"
    assert cluster.telemetry.counted("agent_recoveries_total") == 1
    await submit(cluster, "s4")
    assert broken.running() == ["s4.0"]
    assert [key for key in broken.machine if key.kernel_id.startswith("probe")] == []


async def test_the_time_between_probes_grows(cluster: OrchestratedCluster) -> None:
    broken = await broken_agent(cluster)
    for id_ in ("s1", "s2", "s3"):
        await submit(cluster, id_, retry=ONCE)
    before = broken.requests["create"]
    await cluster.pass_time(80)
    assert broken.requests["create"] - before == 3  # after 10, 30 and 70 seconds


async def test_one_user_alone_removes_no_healthy_agent(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.exits = probes_end
    agent.script.start_problem_of = lambda launch: "" if launch.command == PROBE else "the argument list is too long"
    for number in range(8):
        await submit(cluster, f"s{number}", user="eve", retry=ONCE)
    await cluster.pass_time(5)
    assert not (await health(cluster)).is_failing
    assert "agent-failing" not in await noted(cluster)
    agent.script.start_problem_of = lambda _launch: ""
    await submit(cluster, "good", user="alice")
    assert await cluster.status("good") == "running"


async def test_one_user_is_enough_if_the_probe_fails_too(cluster: OrchestratedCluster) -> None:
    await broken_agent(cluster)
    for number in range(3):
        await submit(cluster, f"s{number}", user="eve", retry=ONCE)
    await cluster.pass_time(3)
    assert (await health(cluster)).is_failing


async def test_images_and_commands_that_fail_everywhere_count_for_no_agent(cluster: OrchestratedCluster) -> None:
    agents = [await cluster.agent("a1"), await cluster.agent("a2")]
    for agent in agents:
        agent.script.broken["mispelt"] = "manifest unknown"
        agent.script.exits = lambda launch: 0 if launch.command == PROBE else 127
    for number in range(4):
        await submit(cluster, f"image{number}", image="mispelt")
        await submit(cluster, f"command{number}")
    await cluster.pass_time(30)
    assert [(await health(cluster, name)).failures for name in ("a1", "a2")] == [(), ()]


async def test_an_image_that_works_elsewhere_counts_for_the_agent_where_it_fails(cluster: OrchestratedCluster) -> None:
    bad = await cluster.agent("a1")
    await cluster.agent("a2")
    bad.script.broken["python"] = "no space left on device"
    bad.script.exits = probes_end
    await submit_failing(cluster, "s1", "s2", "s3")
    assert (await health(cluster)).is_failing


async def test_a_start_between_failures_clears_them(cluster: OrchestratedCluster) -> None:
    agent = await broken_agent(cluster)
    for id_ in ("s1", "s2"):
        await submit(cluster, id_, retry=ONCE)
    agent.script.start_problem = ""
    await submit(cluster, "good")
    agent.script.start_problem = "no space left on device"
    for id_ in ("s3", "s4"):
        await submit(cluster, id_, retry=ONCE)
    assert [one.session_id for one in (await health(cluster)).failures] == ["s3", "s4"]
    assert not (await health(cluster)).is_failing


async def test_failures_long_apart_are_not_counted_together(cluster: OrchestratedCluster) -> None:
    await broken_agent(cluster)
    for id_ in ("s1", "s2", "s3"):
        await submit(cluster, id_, retry=ONCE)
        await cluster.pass_time(400, step_s=10)
    assert not (await health(cluster)).is_failing


async def test_a_new_leader_knows_what_the_former_one_counted(cluster: OrchestratedCluster) -> None:
    await broken_agent(cluster)
    for id_ in ("s1", "s2"):
        await submit(cluster, id_, retry=ONCE)
    await cluster.fail_over()
    await cluster.pass_time(2)
    await submit(cluster, "s3", retry=ONCE)
    assert (await health(cluster)).is_failing


@pytest.mark.parametrize("action", ["restart", "goes_silent"])
async def test_it_stays_removed_while_the_agent_restarts_or_is_away(cluster: OrchestratedCluster, action: str) -> None:
    agent = await broken_agent(cluster)
    for id_ in ("s1", "s2", "s3"):
        await submit(cluster, id_, retry=ONCE)
    if action == "restart":
        await agent.restart()
    else:
        agent.goes_silent()
        await cluster.pass_time(70, step_s=5)
        await agent.connect()
    await cluster.pass_time(2)
    assert (await health(cluster)).is_failing
    agent.script.start_problem = ""
    await cluster.pass_time(90, step_s=5)
    assert not (await health(cluster)).is_failing


async def test_why_says_that_the_agent_fails(cluster: OrchestratedCluster) -> None:
    await broken_agent(cluster)
    for id_ in ("s1", "s2", "s3"):
        await submit(cluster, id_, retry=ONCE)
    await submit(cluster, "s4")
    session = await cluster.session("s4")
    why = await WhyService(cluster.store).why(session.session_id)
    assert (session.status, why.code) == ("pending", "AGENTS_FAILING")
    assert "its only agent is failing" in why.summary
    assert why.funnel["failing"] == 1
