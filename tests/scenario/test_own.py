"""Our own scenarios: every rule of the core that the ones of Volcano do not touch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import yaml

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import profile_from
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Advice, Code
from sokovan.simulator.expectations import differences
from sokovan.simulator.scenario import Scenario, read_scenarios
from sokovan.simulator.simulation import SimulationState, initial_state, run
from tests.scenario.scenario_files import OWN, scenarios_in

SCENARIOS = [scenario for path in OWN for scenario in scenarios_in(path)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.file}: {scenario.name}")
def test_a_scenario_of_our_own_holds(scenario: Scenario) -> None:
    assert differences(run(scenario)) == []


def test_a_name_says_one_thing_in_all_files() -> None:
    names = Counter(scenario.name for scenario in SCENARIOS)
    assert [name for name, count in names.items() if count > 1] == []


def test_every_scenario_expects_something() -> None:
    assert [scenario.name for scenario in SCENARIOS if not scenario.expect] == []


# ---------------------------------------------------------------------------------------------------------------
# Scenarios that are too long to be written by hand.


def state_after(**sections: Any) -> SimulationState:
    """The state after a scenario that is made here instead of written down."""
    text = yaml.safe_dump({"scenario": "made", **sections}, sort_keys=False)
    return run(next(read_scenarios(text, "made")))


def session(count: int, slots: dict[str, Any], *, prefix: str, **more: Any) -> dict[str, Any]:
    return {"kernels": {f"{prefix}-{index:03}": {"slots": slots} for index in range(count)}, **more}


def machines(count: int, **more: Any) -> dict[str, Any]:
    return {f"a{index:03}": more for index in range(count)}


def crowd(count: int, slots: dict[str, Any]) -> dict[str, Any]:
    return {f"s{index:03}": session(1, slots, prefix=f"k{index:03}") for index in range(count)}


@pytest.mark.slow
def test_a_head_that_no_agent_could_hold_blocks_none_of_a_hundred_small_sessions() -> None:
    state = state_after(
        agents=machines(13, slots={"cpu": 64, "cuda.device": 8}),
        sessions={
            "head": session(1, {"cpu": 1, "cuda.device": 9}, prefix="head", priority=9),
            **crowd(100, {"cpu": 1, "cuda.device": 1}),
        },
    )
    assert len(state.placements) == 100
    head = state.plan.verdicts[0]
    assert (head.code, head.advice, head.best_agent) == (Code.NEVER_FITS, Advice.CHANGE, "a000")
    assert head.summary == (
        "no agent could ever hold cpu=1 cuda.device=9; the largest candidate a000 lacks cuda.device=1"
    )


@pytest.mark.slow
def test_a_head_that_waits_for_room_blocks_none_of_a_hundred_small_sessions() -> None:
    busy = {f"b{index}": session(1, {"cuda.device": 4}, prefix=f"b{index}") for index in range(13)}
    for index, one in enumerate(busy.values()):
        for kernel in one["kernels"].values():
            kernel["at"] = f"a{index:03}"
    state = state_after(
        agents={**machines(13, slots={"cuda.device": 8}), "spare": {"slots": {"cuda.device": 99}, "arch": "aarch64"}},
        sessions={
            **busy,
            "head": session(1, {"cuda.device": 8}, prefix="head", priority=9),
            **crowd(100, {"cuda.device": 1}),
        },
    )
    placed = Counter(placement.agent_id for placement in state.placements)
    assert sum(placed.values()) == 52
    assert set(placed.values()) == {4}
    assert state.plan.verdicts[0].code is Code.NOT_ENOUGH_FREE
    waiting = [verdict for verdict in state.plan.verdicts[1:] if not verdict.kernels_placed]
    assert len(waiting) == 48
    assert waiting[-1].position == 48
    assert waiting[-1].ahead == ("head", "s052", "s053")


@pytest.mark.slow
def test_a_gang_of_hundreds_fills_agents_one_after_another() -> None:
    state = state_after(
        agents=machines(40, slots={"cpu": 8}),
        sessions={"gang": session(300, {"cpu": 1}, prefix="g")},
    )
    taken = Counter(placement.agent_id for placement in state.placements)
    assert sorted(taken.values()) == [4, *[8] * 37]


@pytest.mark.slow
def test_a_gang_of_hundreds_waits_whole_for_one_place() -> None:
    state = state_after(
        agents={**machines(40, slots={"cpu": 8}), "spare": {"slots": {"cpu": 8}, "arch": "aarch64"}},
        sessions={
            "one": {"kernels": {"o": {"slots": {"cpu": 1}, "at": "a000"}}},
            "gang": session(320, {"cpu": 1}, prefix="g"),
            "rest": session(319, {"cpu": 1}, prefix="r", min_kernels=1),
        },
    )
    assert {placement.session_id for placement in state.placements} == {"rest"}
    assert len(state.placements) == 319
    assert state.plan.verdicts[0].code is Code.NOT_ENOUGH_FREE


@pytest.mark.slow
def test_a_large_gang_takes_the_one_rack_that_holds_it() -> None:
    racks: dict[str, Any] = {
        f"r{rack}": {"tier": 1, "members": [f"a{index:03}" for index in range(rack * 10, rack * 10 + 10)]}
        for rack in range(10)
    }
    old = {f"o{rack}": {"slots": {"cpu": 1}, "at": f"a{rack * 10:03}"} for rack in range(10) if rack != 7}
    gang = session(80, {"cpu": 1}, prefix="g", topology={"mode": "hard", "highest_tier": 1})
    state = state_after(
        agents=machines(100, slots={"cpu": 8}), hypernodes=racks, sessions={"old": {"kernels": old}, "gang": gang}
    )
    assert {placement.agent_id for placement in state.placements} == set(racks["r7"]["members"])
    assert state.plan.domains == {"gang": "r7"}


@pytest.mark.slow
def test_three_users_with_unequal_appetites_end_with_equal_shares_under_drf() -> None:
    appetites = {"alice": 1, "bob": 2, "carol": 4}
    sessions = {
        f"{user}-{index:02}": session(1, {"cpu": cpus}, prefix=f"{user}-{index:02}", user=user)
        for user, cpus in appetites.items()
        for index in range(64 // cpus)
    }
    state = state_after(profile={"sequencer": "drf"}, agents=machines(3, slots={"cpu": 32}), sessions=sessions)
    used = Counter[str]()
    for placement in state.placements:
        user = placement.session_id.split("-")[0]
        used[user] += appetites[user]
    assert sum(used.values()) == 96
    assert max(used.values()) - min(used.values()) <= max(appetites.values())


@pytest.mark.slow
def test_four_queues_grow_in_turns_to_their_weights() -> None:
    sessions = {
        f"s{weight}": session(100, {"cpu": 1}, prefix=f"s{weight}", queue=f"q{weight}", min_kernels=1)
        for weight in (1, 2, 3, 4)
    }
    state = state_after(
        agents=machines(10, slots={"cpu": 10}),
        queues={f"q{weight}": {"weight": weight} for weight in (1, 2, 3, 4)},
        sessions=sessions,
    )
    taken = Counter(placement.session_id for placement in state.placements)
    assert taken == {"s1": 10, "s2": 20, "s3": 30, "s4": 40}


# ---------------------------------------------------------------------------------------------------------------
# Queues that a scenario cannot have, because its reader refuses them; a store may hold them all the same.


def plan_with(*queues: Queue, policy: str = "capacity") -> SchedulingPlan:
    text = """
        scenario: a good queue beside a bad one
        agents: {a1: {slots: {cpu: 8}}}
        sessions:
          good: {queue: good, kernels: {k1: {slots: {cpu: 1}}}}
          bad: {queue: bad, kernels: {k2: {slots: {cpu: 1}}}}
    """
    snapshot = initial_state(next(read_scenarios(text, "made"))).snapshot()
    made = SystemSnapshot(agents=snapshot.agents, sessions=snapshot.sessions, queues=queues)
    return schedule(made, profile_from({"hierarchy": True, "queue_policy": policy}))


@pytest.mark.parametrize("policy", ["capacity", "proportion"])
def test_a_queue_under_a_parent_that_is_not_there_blocks_no_other_queue(policy: str) -> None:
    plan = plan_with(Queue(QueueName("bad"), parent=QueueName("ghost")), Queue(QueueName("good")), policy=policy)
    assert [placement.session_id for placement in plan.placements] == ["good"]
    bad = plan.verdicts[1]
    assert (bad.code, bad.advice) == (Code.QUEUE_INVALID, Advice.BROKEN)
    assert bad.summary == "queue bad has a parent ghost that does not exist"


@pytest.mark.parametrize("policy", ["capacity", "proportion"])
def test_a_queue_under_itself_blocks_no_other_queue(policy: str) -> None:
    bad, loop = QueueName("bad"), QueueName("loop")
    plan = plan_with(Queue(bad, parent=loop), Queue(loop, parent=bad), Queue(QueueName("good")), policy=policy)
    assert [placement.session_id for placement in plan.placements] == ["good"]
    assert plan.verdicts[1].code is Code.QUEUE_INVALID
    assert "bad is its own ancestor" in plan.verdicts[1].summary
