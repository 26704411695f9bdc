"""Evictions that do not happen: the taker is gone before the notice, or the session has ended by then."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.ids import SessionId
from sokovan.domain.session import EndPolicy, SessionType
from sokovan.orchestrator.sessions import session_cache
from sokovan.orchestrator.sessions.handlers.terminate import TerminateSessions
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.scenario.evicting import (
    A1,
    AT_ONCE,
    FOUR,
    PREEMPTING,
    WHOLE_AGENT,
    evicted_without_notice,
    just_before_notices,
    low_and_high,
)

pytestmark = pytest.mark.slow  # many cycles through the store per test


@pytest.mark.parametrize("dies", [False, True])
async def test_an_eviction_is_withdrawn_if_its_taker_is_gone_before_the_notice(
    cluster: OrchestratedCluster, dies: bool
) -> None:
    await low_and_high(cluster)
    before = await cluster.session("low")
    await evicted_without_notice(cluster, "low")
    assert await cluster.status("low") == "terminating"
    await cluster.stop("high")
    if dies:
        await cluster.fail_over()
    await cluster.settle()
    low = await cluster.session("low")
    assert (low.status, low.kernels[0].attempt, low.evictions) == ("running", 1, ())
    assert (low.since_ms, low.kernels[0].follow_up, low.cause) == (before.since_ms, None, None)
    assert cluster.agents.all[A1].requests["stop"] == 0
    [line] = [one for one in await cluster.history("low") if one.trigger == "spared"]
    assert line.change.code == "eviction-withdrawn"
    assert line.change.detail == "high does not wait for its room any more; it runs on, and had no notice"
    assert await cluster.used("a1") == {"cpu": 4000}
    # It can be evicted again, and is as if it never had been.
    await cluster.submit("next", priority=5, **FOUR)
    await cluster.settle()
    assert [one.number for one in (await cluster.session("low")).evictions] == [1]
    assert await cluster.status("next") == "running"


@pytest.mark.parametrize("stops", [False, True])
async def test_an_eviction_is_withdrawn_after_a_failover_only_if_its_taker_was_read_and_does_not_wait(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    monkeypatch.setattr(session_cache, "READ_AT_ONCE", 1)
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots=WHOLE_AGENT)
    await cluster.submit("low", **FOUR)
    await cluster.settle()
    for number in range(5):  # they wait, and are read before the taker
        await cluster.submit(f"older-{number}", **FOUR)
    await cluster.submit("high", priority=5, **FOUR)
    await evicted_without_notice(cluster, "low")
    if stops:
        await cluster.stop("high")
    await cluster.fail_over()
    await cluster.settle()
    moves = [one.trigger for one in await cluster.history("low") if one.trigger in {"preempted", "spared"}]
    assert moves == (["preempted", "spared"] if stops else ["preempted"])
    assert await cluster.status("low" if stops else "high") == "running"


async def test_an_eviction_is_withdrawn_if_its_taker_was_placed_elsewhere(cluster: OrchestratedCluster) -> None:
    await low_and_high(cluster)
    await evicted_without_notice(cluster, "low")
    await cluster.agent("a2", slots=WHOLE_AGENT)
    await cluster.stored.place("high", "a2")
    await cluster.settle()
    assert (await cluster.status("low"), await cluster.status("high")) == ("running", "running")
    assert (await cluster.session("low")).kernels[0].attempt == 1


async def test_kernels_that_were_to_be_taken_from_an_elastic_session_are_spared(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots=WHOLE_AGENT)
    await cluster.submit("elastic", kernels=4, min_kernels=2, slots={"cpu": 1000}, session_type=SessionType.BATCH)
    await cluster.settle()
    await cluster.submit("high", slots={"cpu": 2000}, priority=5)
    await evicted_without_notice(cluster, "elastic")
    await cluster.stop("high")
    await cluster.settle()
    elastic = await cluster.session("elastic")
    assert (elastic.status, elastic.evictions) == ("running", ())
    assert [(one.status, one.attempt, one.follow_up) for one in elastic.kernels] == [("running", 1, None)] * 4


@pytest.mark.parametrize("dies", [False, True])
async def test_a_taker_that_is_cancelled_while_the_notice_is_being_given_spares_its_victim(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    async def is_cancelled() -> None:
        await cluster.stop("high")

    await low_and_high(cluster)
    await evicted_without_notice(cluster, "low")
    seen = just_before_notices(monkeypatch, is_cancelled)
    await cluster.tick()
    low = await cluster.session("low")
    assert (seen, low.status, low.evictions[0].noticed_ms) == ([1], "terminating", None)
    if dies:
        await cluster.fail_over()
    await cluster.settle()
    low = await cluster.session("low")
    assert (low.status, low.kernels[0].attempt, low.evictions) == ("running", 1, ())
    assert (seen, cluster.agents.all[A1].requests["stop"]) == ([1], 0)
    assert await cluster.status("high") == "cancelled"


async def test_a_taker_that_is_placed_elsewhere_while_the_notice_is_being_given_spares_its_victim(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_placed() -> None:
        await cluster.agent("a2", slots=WHOLE_AGENT)
        await cluster.stored.place("high", "a2")

    await low_and_high(cluster)
    await evicted_without_notice(cluster, "low")
    just_before_notices(monkeypatch, is_placed)
    await cluster.settle()
    assert (await cluster.status("low"), await cluster.status("high")) == ("running", "running")
    assert (await cluster.session("low")).kernels[0].attempt == 1


async def test_a_notice_that_a_cancelled_taker_refutes_does_not_affect_other_notices(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_cancelled() -> None:
        await cluster.stop("high-0")

    await cluster.stored.put(PREEMPTING, AT_ONCE)
    for number in range(3):
        await cluster.agent(f"a{number + 1}", slots=WHOLE_AGENT)
        await cluster.submit(f"low-{number}", **FOUR)
    await cluster.settle()
    for number in range(3):
        await cluster.submit(f"high-{number}", priority=5, **FOUR)
    await cluster.tick()
    victims = [await cluster.session(f"low-{number}") for number in range(3)]
    taken: dict[str, SessionId] = {one.evictions[0].for_session: one.session_id for one in victims}
    seen = just_before_notices(monkeypatch, is_cancelled)
    await cluster.tick()
    noticed = [(await cluster.session(taken[f"high-{number}"])).evictions[0].noticed_ms for number in range(3)]
    assert (seen, [one is not None for one in noticed]) == ([3], [False, True, True])
    await cluster.settle()
    assert await cluster.status(taken["high-0"]) == "running"
    assert [await cluster.status(f"high-{number}") for number in range(3)] == ["cancelled", "running", "running"]


async def test_a_taker_that_changed_and_still_waits_gets_its_room_in_the_next_cycle(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_changed() -> None:
        await cluster.store.run(
            lambda unit: unit.sessions.save_checkpoints({SessionId("high"): cluster.clock.now_ms()})
        )

    await low_and_high(cluster)
    await evicted_without_notice(cluster, "low")
    seen = just_before_notices(monkeypatch, is_changed)
    await cluster.settle()
    assert (seen, await cluster.status("high")) == ([1, 1], "running")


async def test_an_eviction_is_not_withdrawn_after_its_notice(cluster: OrchestratedCluster) -> None:
    await low_and_high(cluster)
    cluster.agents.all[A1].faults["stop"] = Fault.REQUEST_LOST
    await cluster.settle()
    low = await cluster.session("low")
    assert low.evictions[0].noticed_ms is not None
    assert "noticed" in [one.trigger for one in await cluster.history("low", kernels=True)]
    await cluster.stop("high")
    cluster.agents.all[A1].faults.clear()
    await cluster.fail_over()
    await cluster.pass_time(10)
    assert len((await cluster.session("low")).evictions) == 1


async def test_no_kernel_is_asked_to_stop_before_its_notice_is_recorded(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_recorded(_self: TerminateSessions) -> bool:
        return False

    await low_and_high(cluster)
    with monkeypatch.context() as patch:
        patch.setattr(TerminateSessions, "_announce", not_recorded)
        await cluster.settle()
        low = await cluster.session("low")
        assert (low.status, low.evictions[0].noticed_ms) == ("terminating", None)
        assert cluster.agents.all[A1].requests["stop"] == 0
    await cluster.settle()
    assert cluster.agents.all[A1].requests["stop"] > 0
    assert await cluster.status("high") == "running"


async def test_a_session_that_is_stopped_while_it_is_evicted_is_not_spared(cluster: OrchestratedCluster) -> None:
    await low_and_high(cluster)
    await evicted_without_notice(cluster, "low")
    await cluster.stop("low")
    await cluster.stop("high")
    await cluster.settle()
    assert await cluster.status("low") == "terminated"


async def ends_unheard(cluster: OrchestratedCluster, kernel: str, code: int = 0) -> None:
    """A kernel ends by itself, and the manager does not hear of it before the agent is asked to stop it."""
    agent = cluster.agents.all[A1]
    agent.speaking = False
    await agent.ends(kernel, code)


async def is_heard_again(cluster: OrchestratedCluster) -> None:
    """The agent sends heartbeats again; what waits for the end of kernels hears of it."""
    cluster.agents.all[A1].speaking = True
    await cluster.pass_time(2)


@pytest.mark.parametrize(("code", "result", "cause"), [(0, "success", "completed"), (3, "failure", "kernel-failed")])
async def test_a_session_that_had_ended_before_its_notice_is_not_run_again(
    cluster: OrchestratedCluster, code: int, result: str, cause: str
) -> None:
    await low_and_high(cluster)
    await ends_unheard(cluster, "low.0", code)
    await cluster.settle()
    low = await cluster.session("low")
    assert (low.status, low.result, low.cause, low.kernels[0].exit_code) == ("terminated", result, cause, code)
    assert low.cause_detail == "it ended by itself before the notice of its eviction was given"
    assert [(one.completed, one.lost_s) for one in low.evictions] == [(True, 0)]
    assert ("running", "preempted") in [(one.before, one.trigger) for one in await cluster.history("low")]
    await is_heard_again(cluster)
    assert await cluster.status("high") == "running"


async def test_the_end_before_the_notice_counts_although_the_first_answer_of_the_agent_is_lost(
    cluster: OrchestratedCluster,
) -> None:
    await low_and_high(cluster)
    agent = cluster.agents.all[A1]
    agent.faults["stop"] = Fault.ANSWER_LOST
    await ends_unheard(cluster, "low.0")
    await cluster.settle()
    assert await cluster.status("low") == "terminating"
    agent.faults.clear()
    await cluster.fail_over()
    await cluster.pass_time(10)
    low = await cluster.session("low")
    assert (low.status, low.result, low.kernels[0].attempt) == ("terminated", "success", 1)


@pytest.mark.parametrize(("policy", "status"), [(EndPolicy.ANY, "terminated"), (EndPolicy.ALL, "pending")])
async def test_a_gang_has_ended_before_its_notice_by_its_own_rule(
    cluster: OrchestratedCluster, policy: EndPolicy, status: str
) -> None:
    await low_and_high(cluster, kernels=2, slots={"cpu": 2000}, ends_with=policy)
    await ends_unheard(cluster, "low.1")
    await cluster.settle()
    await is_heard_again(cluster)
    low = await cluster.session("low")
    assert (low.status, low.result) == (status, "success" if status == "terminated" else None)


async def test_an_elastic_session_ends_with_a_kernel_that_ended_before_its_notice(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots={"cpu": 2000})
    await cluster.submit("elastic", kernels=2, min_kernels=1, slots={"cpu": 1000}, session_type=SessionType.BATCH)
    await cluster.settle()
    await cluster.submit("high", slots={"cpu": 1000}, priority=5)
    await ends_unheard(cluster, "elastic.1")
    await cluster.settle()
    await is_heard_again(cluster)
    elastic = await cluster.session("elastic")
    assert (elastic.status, elastic.result) == ("terminated", "success")
    assert [(one.whole, one.lost_s) for one in elastic.evictions] == [(False, 0)]


async def test_a_gang_has_ended_before_its_notice_though_its_agents_answer_one_after_the_other(
    cluster: OrchestratedCluster,
) -> None:
    two: dict[str, Any] = {"kernels": 2, "slots": {"cpu": 2000}, "session_type": SessionType.BATCH}
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    agents = [await cluster.agent(name, slots={"cpu": 2000}) for name in ("a1", "a2")]
    await cluster.submit("low", ends_with=EndPolicy.ALL, **two)
    await cluster.settle()
    await cluster.submit("high", priority=5, **two)
    for agent in agents:
        agent.speaking = False
        for kernel in agent.running():
            await agent.ends(kernel)
    agents[1].faults["stop"] = Fault.ANSWER_LOST
    await cluster.settle()
    assert await cluster.status("low") == "terminating"
    assert [len(one.exits) for one in (await cluster.session("low")).evictions] == [1]
    agents[1].faults.clear()
    await cluster.fail_over()
    await cluster.pass_time(10)
    low = await cluster.session("low")
    assert (low.status, low.result, low.cause) == ("terminated", "success", "completed")
    assert [(one.completed, one.lost_s) for one in low.evictions] == [(True, 0)]
    for agent in agents:
        agent.speaking = True
    await cluster.pass_time(2)
    assert await cluster.status("high") == "running"
