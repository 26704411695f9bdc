"""One scheduling cycle: deterministic, and without side effects."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.queue import Queue, QueueState
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.errors import InvalidTopology
from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.plain_values import to_plain
from sokovan.domain.session import Partition, TopologyConstraint, TopologyMode
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.codec import snapshot_to_json
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.snapshot import Reservation, SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.quick import at_most
from tests.unit.scheduling.little_cluster import (
    agent,
    decide,
    kernel,
    plugin_with,
    registry_with,
    session,
    snapshot,
    started,
    verdict_of,
    where,
)


def mixed() -> SystemSnapshot:
    """A cluster on which some sessions fit, some do not, with gangs and single kernels."""
    agents = [agent(f"n{index}", f"cpu={2 + index % 3} mem={4 + index}Gi") for index in range(6)]
    sessions = [
        session("gang", *["cpu=1 mem=1Gi"] * 5, user="alice"),
        session("wide", "cpu=9", user="bob"),
        session("grows", *["cpu=1"] * 4, user="bob", min_kernels=1, queue="q"),
        *(session(f"s{index}", f"cpu={1 + index % 2}", user=f"u{index % 3}") for index in range(8)),
        session("bare", "", user="alice"),
    ]
    return snapshot(agents, sessions)


def test_what_fits_is_placed_and_what_does_not_gets_a_reason() -> None:
    agents = [agent("a", "cpu=2"), agent("b", "cpu=2")]
    sessions = [session("s", "cpu=1.5"), session("t", "cpu=1.5"), session("u", "cpu=1"), session("v", "cpu=3")]
    plan = decide(snapshot(agents, sessions))
    assert where(plan) == {"s.0": "a", "t.0": "b"}
    codes = [verdict_of(plan, name).code for name in "stuv"]
    assert codes == [Code.PLACED, Code.PLACED, Code.NOT_ENOUGH_FREE, Code.NEVER_FITS]


def test_a_gang_waits_whole_rather_than_starting_in_part() -> None:
    plan = decide(snapshot([agent("a", "cpu=3")], [session("gang", *["cpu=1"] * 4), session("small", "cpu=3")]))
    assert started(plan) == ["small"]
    assert verdict_of(plan, "gang").code is Code.NEVER_FITS


def test_an_empty_cluster_and_an_empty_queue_give_an_empty_plan() -> None:
    assert decide(snapshot([])).verdicts == ()
    assert decide(snapshot([agent("a")])).placements == ()
    assert verdict_of(decide(snapshot([], [session("s")])), "s").code is Code.NO_NODES


def test_a_session_that_runs_in_full_has_no_verdict() -> None:
    runs = session("s", kernel("s.0", on="a"))
    assert decide(snapshot([agent("a", used="cpu=1", kernel_count=1)], [runs])).verdicts == ()


@pytest.mark.parametrize("selector", BUILT_IN.selectors)
@pytest.mark.parametrize("sequencer", BUILT_IN.sequencers)
def test_the_same_snapshot_gives_the_same_plan_and_is_not_touched(selector: str, sequencer: str) -> None:
    seen, before = mixed(), copy.deepcopy(mixed())
    assert decide(seen, selector=selector, sequencer=sequencer) == decide(seen, selector=selector, sequencer=sequencer)
    assert seen == before


@pytest.mark.slow
@pytest.mark.parametrize("selector", BUILT_IN.selectors)
@at_most(25)
@given(order=st.permutations(range(6)))
def test_the_order_in_which_agents_are_listed_decides_nothing(selector: str, order: list[int]) -> None:
    seen = mixed()
    shuffled = SystemSnapshot(tuple(seen.agents[index] for index in order), seen.sessions)
    assert decide(shuffled, selector=selector) == decide(seen, selector=selector)


@pytest.mark.slow
@at_most(25)
@given(order=st.permutations(range(12)))
def test_the_order_in_which_sessions_are_listed_decides_nothing_where_their_age_is_known(order: list[int]) -> None:
    seen = mixed()
    shuffled = SystemSnapshot(seen.agents, tuple(seen.sessions[index] for index in order))
    assert decide(shuffled, sequencer="drf") == decide(seen, sequencer="drf")


SCRIPT = """
import sys
import json
from sokovan.domain.plain_values import to_plain
from sokovan.scheduling.codec import snapshot_from_json
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
print(json.dumps(to_plain(schedule(snapshot_from_json(sys.stdin.read()), SchedulingProfile(sequencer="drf")))))
"""


@pytest.mark.slow
def test_the_plan_does_not_depend_on_the_hash_seed_of_the_process(tmp_path: Path) -> None:
    outputs = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=snapshot_to_json(mixed()),
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout.strip())
    assert outputs == {json.dumps(to_plain(decide(mixed(), sequencer="drf")))}


def test_an_action_that_evicts_gives_evictions_and_a_reservation() -> None:
    sessions = [session("low", kernel("k", on="a"), priority=1), session("high", priority=2)]
    seen = snapshot([agent("a", "cpu=1", used="cpu=1", kernel_count=1)], sessions)
    plan = schedule(seen, SchedulingProfile(actions=("allocate", "preempt")))
    assert [(one.session_id, one.for_session, one.action) for one in plan.evictions] == [("low", "high", "preempt")]
    assert [one.session_id for one in plan.reservations] == ["high"]


def test_hypernodes_that_are_no_tree_are_refused() -> None:
    broken = snapshot([agent("a")], [session("s")], hypernodes=(HyperNode("r", 1, ("gone",)),))
    with pytest.raises(InvalidTopology):
        decide(broken)


def test_without_allocate_no_kernel_that_requests_slots_is_placed() -> None:
    seen = snapshot([agent("a")], [session("s"), session("bare", "")])
    assert started(decide(seen, actions=())) == []
    assert started(decide(seen, actions=("backfill",))) == ["bare"]
    assert started(decide(seen, actions=("allocate",))) == ["s"]
    assert started(decide(seen, actions=("allocate", "backfill"))) == ["s", "bare"]


def test_a_closed_queue_runs_nothing_and_stops_no_other() -> None:
    closed = Queue(QueueName("shut"), state=QueueState.CLOSED)
    plan = decide(snapshot([agent("a")], [session("s", queue="shut"), session("t")], queues=(closed,)))
    assert started(plan) == ["t"]
    assert verdict_of(plan, "s").code is Code.QUEUE_CLOSED


def test_a_session_with_a_reservation_goes_before_even_more_urgent_work() -> None:
    held = Reservation(SessionId("s"), ((KernelId("s.0"), AgentId("b")),))
    sessions = [session("urgent", "cpu=4", priority=9), session("s", "cpu=4")]
    one = snapshot([agent("b")], sessions, reservations=(held,))
    assert started(decide(one)) == ["s"]
    two = snapshot([agent("a"), agent("b")], sessions, reservations=(held,))
    assert where(decide(two)) == {"s.0": "b", "urgent.0": "a"}


def test_room_that_is_being_released_is_reserved_and_kept_from_others() -> None:
    leaving = agent("a", "cpu=2", used="cpu=1", releasing_slots=parse_slots("cpu=1"), kernel_count=1, releasing_count=1)
    too_small = [agent(name, "cpu=0.9") for name in "bc"]
    plan = decide(snapshot([leaving, *too_small], [session("wide", "cpu=2"), session("narrow", "cpu=1")]))
    assert where(plan) == {}
    assert [(held.session_id, held.agents) for held in plan.reservations] == [("wide", ("a",))]
    assert (verdict_of(plan, "wide").code, verdict_of(plan, "narrow").code) == (Code.RESERVED, Code.RESERVED_FOR_GANG)


def test_remembering_what_does_not_fit_changes_no_decision() -> None:
    fast, slow = (decide(mixed(), fit_error_cache=cached) for cached in (True, False))
    assert fast == slow


def test_a_plugin_takes_part_only_where_the_profile_names_it() -> None:
    registry = registry_with(plugin_with(session_valid=lambda _one: "no"))
    seen = snapshot([agent("a")], [session("s")])
    assert started(decide(seen, registry, plugins=())) == ["s"]
    assert started(decide(seen, registry, plugins=("tester",))) == []


def test_each_kernel_group_records_the_hypernode_it_is_in() -> None:
    racks = (HyperNode("r1", 1, ("a", "b")), HyperNode("r2", 1, ("c", "d")), HyperNode("row", 2, ("r1", "r2")))
    close = TopologyConstraint(TopologyMode.HARD, 1)
    kernels = [kernel(f"s.{index}", labels={"stage": str(index // 2)}) for index in range(4)]
    part = Partition("stages", "stage", size=2, topology=close)
    seen = snapshot(
        [agent(name, "cpu=1") for name in "abcd"], [session("s", *kernels, partitions=(part,))], hypernodes=racks
    )
    plan = decide(seen)
    assert plan.group_domains == {"s": {"stages/0": "r1", "stages/1": "r2"}}
    assert plan.domains == {}
