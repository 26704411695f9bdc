"""JSON encoding of snapshots and verdicts; malformed documents are refused by key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sokovan.domain.cluster.queue import Queue, QueueState
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import AgentId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.plain_values import to_plain
from sokovan.domain.session import Partition, Preemption, SessionType, TopologyConstraint, TopologyMode
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.codec import (
    InvalidSnapshot,
    snapshot_from_json,
    snapshot_to_json,
    verdict_from_json,
    verdict_to_json,
)
from sokovan.scheduling.snapshot import (
    FairSharePolicy,
    OwnerUsage,
    Reservation,
    SessionWorkload,
    SystemSnapshot,
    UsageRecord,
)
from sokovan.scheduling.trace import Check, Code, Funnel, Verdict
from tests.unit.scheduling.little_cluster import agent, decide, kernel, session, slot_limits, snapshot

HARD, SOFT = TopologyConstraint(TopologyMode.HARD, "rack"), TopologyConstraint(TopologyMode.SOFT, 2)


def everything() -> SystemSnapshot:
    """A snapshot in which no field has its default."""
    full = agent(
        "a", "cpu=4 cuda.device=2", used="cpu=2", architecture="aarch64", labels={"zone": "é"}, kernels_max=8,
        status=AgentStatus.DRAINING, scaling_group="gpu", shard="east", incarnation=3, kernel_count=2,
        cached_images=frozenset({"z", "a"}), releasing_slots=parse_slots("cpu=1"), releasing_count=1,
    )  # fmt: skip
    return snapshot(
        [full, agent("b")],
        [_rich_session(), session("plain", kernel("p.0", on="b"))],
        hypernodes=(HyperNode("r1", 1, ("a",), "rack"), HyperNode("hall", 2, ("r1", "b"))),
        queues=(_rich_queue(), Queue(QueueName("p"))),
        scaling_group=_rich_group(),
        now_ms=123456789,
        usage={Scope.USER: {"u": OwnerUsage(parse_slots("cpu=1"), 2)}, Scope.DOMAIN: {}},
        limits={Scope.KEYPAIR: {"k": _rich_policy()}},
        pending_elsewhere=(session("elsewhere", "mem=1", user="u"),),
        outcomes={SessionId("x"): True, SessionId("y"): False},
        history=(UsageRecord("u", -5, 7), UsageRecord("u", 9, 2**70)),
        fair_share=FairSharePolicy(60, {"u": 3}),
        reservations=(Reservation(SessionId("rich"), ((KernelId("r.0"), AgentId("a")),)),),
        cursors={"gpu": AgentId("b")},
    )


def _rich_session() -> SessionWorkload:
    first = kernel(
        "r.0", "cpu=1", group="g", image="torch:2", architecture="aarch64", labels={"i": "1"}, require={"zone": "é"},
        priority=-3, preemptible=False, nominated=AgentId("a"), releasing=True, on="a",
    )  # fmt: skip
    return session(
        "rich", first, kernel("r.1", ""), user="u", queue="q", submitted=7, session_type=SessionType.BATCH, priority=5,
        min_kernels=1, group_minimums={"g": 1}, topology=SOFT, hypernode="hall", starts_at_ms=99, preemptible=False,
        partitions=(Partition("p", "i", 2, 1, HARD),), dependencies=(SessionId("x"),), preemption=Preemption.NEVER,
    )  # fmt: skip


def _rich_queue() -> Queue:
    return Queue(
        QueueName("q"), weight=2, priority=-1, state=QueueState.CLOSED, parent=QueueName("p"), reclaimable=False,
        capability=slot_limits("cpu=9 cuda.device=0"), deserved=slot_limits("cpu=4"), guarantee=parse_slots("cpu=1"),
    )  # fmt: skip


def _rich_group() -> ScalingGroup:
    options = {"agent_selector": "dispersed", "actions": ["allocate"], "deep": {"x": [1, None, 2.5]}}
    return ScalingGroup(ScalingGroupName("gpu"), "drf", options, ("cpu",), ("cpu", "mem"), 30)


def _rich_policy() -> ResourcePolicy:
    return ResourcePolicy("p", slot_limits("cpu=0"), 3, 0, slot_limits("mem=5"), 4, 9)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_snapshot_survives_the_way_to_json_and_back(indent: int | None) -> None:
    assert snapshot_from_json(snapshot_to_json(everything(), indent=indent)) == everything()


def test_an_empty_snapshot_survives_too() -> None:
    assert snapshot_from_json(snapshot_to_json(SystemSnapshot(()))) == SystemSnapshot(())


def test_a_snapshot_from_json_gives_the_very_same_plan() -> None:
    seen = snapshot([agent("a"), agent("b", "cpu=2")], [session("s", "cpu=2"), session("t", "cpu=9")])
    plan = decide(snapshot_from_json(snapshot_to_json(seen)), selector="dispersed")
    assert plan == decide(seen, selector="dispersed")


def test_the_same_snapshot_is_written_the_same_whatever_the_order_of_its_sets() -> None:
    one = snapshot([agent("a", cached_images=frozenset(["x", "y", "z"]))])
    other = snapshot([agent("a", cached_images=frozenset(["z", "y", "x"]))])
    assert snapshot_to_json(one) == snapshot_to_json(other)


def test_what_may_be_left_out_takes_its_default() -> None:
    text = '{"sokovan": "snapshot", "version": 1, "snapshot": {"agents": []}}'
    assert snapshot_from_json(text) == SystemSnapshot(())


def test_plain_values_are_mappings_lists_texts_and_numbers_only() -> None:
    assert to_plain(_rich_policy()) == {
        "name": "p", "slots_max": {"cpu": 0}, "sessions_max": 3, "pending_sessions_max": 0,
        "pending_slots_max": {"mem": 5}, "kernels_per_session_max": 4, "priority_max": 9,
        "array_size_max": None, "slots_min": {}, "stored_pending_max": None,
        "kernel_disk_max": None,
    }  # fmt: skip
    assert to_plain({Scope.USER: (frozenset({"b", "a"}), None)}) == {"user": [["a", "b"], None]}


def broken(path: str, value: Any) -> str:
    """The JSON of the full snapshot with one value replaced; a path is keys and indices with dots between."""
    document = json.loads(snapshot_to_json(everything()))
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = document
    for part in above:
        place = place[part]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "key", "said"),
    [
        ("snapshot.now_ms", "soon", "snapshot.now_ms", "is 'soon', expected int"),
        ("snapshot.now_ms", True, "snapshot.now_ms", "is True, expected int"),
        ("snapshot.now_ms", 1.5, "snapshot.now_ms", "is 1.5, expected int"),
        ("snapshot.colour", "red", "snapshot", "has unknown keys colour"),
        ("snapshot.agents", KeyError, "snapshot", "lacks agents"),
        ("snapshot.agents", {}, "snapshot.agents", "expected a list"),
        ("snapshot.agents.0", [], "snapshot.agents[0]", "expected a mapping"),
        ("snapshot.agents.0.agent_id", KeyError, "snapshot.agents[0]", "lacks agent_id"),
        ("snapshot.agents.0.agent_id", "a b", "snapshot.agents[0]", "'a b' is not a name for an agent"),
        ("snapshot.agents.0.status", "asleep", "snapshot.agents[0].status", "'asleep'"),
        ("snapshot.agents.0.status", [], "snapshot.agents[0].status", "[]"),
        ("snapshot.agents.0.kernels_max", -1, "snapshot.agents[0]", "kernels_max"),
        ("snapshot.agents.0.available_slots.cpu", -1, "snapshot.agents[0].available_slots", "below zero"),
        ("snapshot.agents.0.available_slots.cpu", 0.5, "snapshot.agents[0].available_slots", "whole number"),
        ("snapshot.agents.0.available_slots", [1], "snapshot.agents[0].available_slots", "expected a mapping"),
        ("snapshot.agents.0.cached_images", ["a", 1], "snapshot.agents[0].cached_images[]", "expected str"),
        ("snapshot.agents.0.labels.zone", None, "snapshot.agents[0].labels.zone", "is None, expected str"),
        ("snapshot.sessions.0.kernels.0.slots", None, "snapshot.sessions[0].kernels[0].slots", "expected a mapping"),
        ("snapshot.sessions.0.kernels.1.agent", 5, "snapshot.sessions[0].kernels[1].agent", "is 5, expected str"),
        ("snapshot.sessions.0.topology.highest_tier", 1.5, "snapshot.sessions[0].topology.highest_tier", "is 1.5"),
        ("snapshot.sessions.0.topology.mode", "firm", "snapshot.sessions[0].topology.mode", "'firm'"),
        ("snapshot.hypernodes.0.tier", 0, "snapshot.hypernodes[0]", "has tier 0"),
        ("snapshot.queues.0.weight", 0, "snapshot.queues[0]", "weight"),
        ("snapshot.limits.planet", {}, "snapshot.limits", "'planet'"),
        ("snapshot.fair_share.half_life_s", 0, "snapshot.fair_share", "must be 1 or more"),
        ("snapshot.reservations.0.kernels.0", ["k"], "snapshot.reservations[0].kernels[0]", "has 1 items, expected 2"),
        ("snapshot", None, "snapshot", "expected a mapping"),
        ("version", 2, "version", "is 2, supported is 1"),
        ("version", KeyError, "version", "is None, supported is 1"),
        ("sokovan", "plan", "sokovan", "this is not a snapshot"),
    ],
)
def test_a_malformed_snapshot_is_refused_by_its_key(*, path: str, value: Any, key: str, said: str) -> None:
    with pytest.raises(InvalidSnapshot) as refused:
        snapshot_from_json(broken(path, value))
    assert refused.value.key == key
    assert said in refused.value.problem
    assert refused.value.code == "invalid-snapshot"
    assert refused.value.message.startswith(f"{key}: ")


@pytest.mark.parametrize("text", ["", "{", "nonsense", "{'a': 1}", "[" * 100_000])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSnapshot, match="this is not JSON"):
        snapshot_from_json(text)


@pytest.mark.parametrize("text", ["[]", "null", "7", "{}", '{"sokovan": "snapshot"}'])
def test_json_that_is_no_verdict_is_refused(text: str) -> None:
    with pytest.raises(InvalidSnapshot, match="this is not a verdict"):
        verdict_from_json(text)


def test_a_malformed_verdict_is_refused_by_its_key() -> None:
    verdict = Verdict(SessionId("s"), Code.FRAGMENTED, "some fit")
    text = verdict_to_json(verdict).replace('"FRAGMENTED"', '"FEDUP"')
    with pytest.raises(InvalidSnapshot, match="'FEDUP'") as refused:
        verdict_from_json(text)
    assert refused.value.key == "verdict.code"


def test_a_verdict_comes_back_as_it_was() -> None:
    verdict = Verdict(
        SessionId("s1"),
        Code.TOPOLOGY_NO_ROOM,
        "no rack has room for 4 kernels",
        checks=(Check("topology", "short", "the best has room for 3"),),
        funnel=Funnel(9, 8, 8, 7, 6, 3, 0),
        shortfall=parse_slots("cuda.device=1"),
        best_agent="a1",
        kernels_fit=3,
        kernels_needed=4,
        position=2,
        ahead=(SessionId("s0"),),
    )

    assert verdict_from_json(verdict_to_json(verdict)) == verdict


@pytest.mark.parametrize(
    "text", ["", "{}", '{"sokovan": "plan", "version": 1}', '{"sokovan": "verdict", "version": 9}']
)
def test_what_is_no_verdict_is_refused(text: str) -> None:
    with pytest.raises(InvalidSnapshot):
        verdict_from_json(text)
