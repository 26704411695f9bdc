"""Images are made ready once, and kernels move as they are."""

import pytest

from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow

ONCE = RetryPolicy(attempts=1)


async def test_an_image_that_is_known_to_be_there_is_not_asked_for(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("first")
    await cluster.settle()
    await cluster.submit("second")
    await cluster.settle()
    assert agent.requests["prepare"] == 1
    assert await cluster.status("second") == "running"


async def test_a_kernel_without_an_image_needs_none(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s", image="")
    await cluster.settle()
    assert agent.requests["prepare"] == 0
    assert await cluster.status("s") == "running"


async def test_the_progress_of_a_pull_is_noted_at_intervals(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.pulls = {"big"}
    await cluster.submit("s", image="big")
    await cluster.pass_time(21)
    notes = [entry for entry in await cluster.history("s") if entry.change.code == "pulling"]
    assert len(notes) == 1
    assert 4 <= notes[0].times <= 6
    assert agent.requests["prepare"] <= 4


async def test_changed_progress_of_a_pull_is_noted_soon_and_once(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.pulls = {"big"}
    await cluster.submit("s", image="big")
    await cluster.pass_time(2)
    assert (await cluster.history("s"))[-1].change.detail == "big"
    await agent.pulled("big", so_far="layer 1 of 3")
    await cluster.pass_time(2)
    last = (await cluster.history("s"))[-1]
    assert (last.change.code, last.change.detail) == ("pulling", "big: layer 1 of 3")


async def test_a_pull_without_a_report_is_requested_again(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.pulls = {"big"}
    await cluster.submit("s", image="big")
    await cluster.settle()
    agent.speaking = False
    await agent.pulled("big")
    await cluster.pass_time(11)
    assert await cluster.status("s") == "creating"
    agent.speaking = True
    await cluster.pass_time(2)
    assert await cluster.status("s") == "running"


async def test_preparation_that_gets_nowhere_ends_at_its_deadline(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.faults["prepare"] = Fault.REQUEST_LOST
    await cluster.submit("s", retry=ONCE)
    await cluster.pass_time(125, step_s=5)
    session = await cluster.session("s")
    assert (session.status.value, session.cause) == ("terminated", "preparing-timeout")


async def test_the_failure_of_one_image_names_it(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    agent.script.broken = {"bad": "manifest unknown"}
    await cluster.submit("s", retry=ONCE, image="bad", kernels=2)
    await cluster.settle()
    assert (await cluster.session("s")).cause_detail == "bad: manifest unknown; bad: manifest unknown"
