"""Scenarios: a cluster, the sessions submitted to it, and the expected decisions."""

from __future__ import annotations

import textwrap

import pytest

from sokovan.domain.cluster.queue import QueueState
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.policy import Scope
from sokovan.domain.session import Preemption, SessionType, TopologyMode
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import FairSharePolicy, UsageRecord
from sokovan.simulator import documents
from sokovan.simulator.documents import InvalidScenario
from sokovan.simulator.scenario import Scenario, read_scenarios
from tests.unit.scheduling.little_cluster import slot_limits
from tests.unit.simulator.malformed import MALFORMED, NAMED, NAMELESS, Malformed

FULL = """\
scenario: everything that may be written
source: a test
profile:
  {sequencer: drf, selector: dispersed, queue_policy: capacity, hierarchy: true, actions: [allocate],
   ancestor_reclaim_level: 1}
cycles: 3
now: 100
cursor: n2
outcomes: {before: true}
history: [{user: alice, age: 60, amount: 5}]
fair_share: {half_life: 30, weights: {alice: 2}}
limits: {user: {alice: {slots: {cpu: 0}, sessions: 2, pending: 3, pending_slots: {mem: 1Gi}}}}
agents:
  n1: {slots: {cpu: 0.5, mem: 4Gi, cuda.device: 8}, labels: {role: 7}, arch: aarch64, max_kernels: 10,
       status: draining, shard: east}
  n2:
hypernodes:
  s0: {tier: 1, members: [n1, n2]}
  s2: {tier: 2, tier_name: rack, members: [s0]}
queues:
  q1: {weight: 2, priority: 3, state: closed, parent: q0, reclaimable: false, capability: {cpu: 4},
       deserved: {cpu: 2}, guarantee: {cpu: 1}}
  q0:
sessions:
  train:
    queue: q1
    user: alice
    group: lab
    domain: uni
    keypair: key
    priority: 10
    min_kernels: 2
    group_min: {master: 1}
    preemptible: false
    preemption: never
    topology: {mode: soft, highest_tier: rack}
    partitions: [{name: workers, by: instance, size: 2, min_groups: 1, topology: {highest_tier: 1}}]
    hypernode: s0
    depends: [before]
    starts_at: 7
    kernels:
      k1: {group: master, slots: {cpu: 1}, require: {role: 7}, arch: aarch64, image: torch, priority: 5}
      k2: {at: n1, labels: {instance: w1}, nominated: n2, preemptible: false, releasing: true}
  plain:
    kernels: {k3: }
expect: {placed: {}, pending: [train]}
"""


def read(text: str) -> Scenario:
    """The one scenario of a text."""
    [scenario] = read_scenarios(textwrap.dedent(text), "f.yaml")
    return scenario


def test_the_head_of_a_scenario_is_read() -> None:
    scenario = read(FULL)
    assert (scenario.name, scenario.file, scenario.line) == ("everything that may be written", "f.yaml", 1)
    assert (scenario.cycles, scenario.now_ms, scenario.cursor) == (3, 100_000, "n2")
    assert scenario.profile == SchedulingProfile(
        sequencer="drf", selector="dispersed", queue_policy="capacity", hierarchy=True, actions=("allocate",),
        eviction_options=EvictionOptions(ancestor_reclaim_level=1),
    )  # fmt: skip
    assert scenario.outcomes == {"before": True}
    assert scenario.history == (UsageRecord("alice", 40_000, 5),)
    assert scenario.fair_share == FairSharePolicy(30, {"alice": 2})
    assert scenario.expect == {"placed": {}, "pending": ["train"]}


def test_limits_are_read_by_scope_and_owner() -> None:
    policy = read(FULL).limits[Scope.USER]["alice"]
    assert (policy.slots_max, policy.pending_slots_max) == (slot_limits("cpu=0"), slot_limits("mem=1Gi"))
    assert (policy.sessions_max, policy.pending_sessions_max) == (2, 3)


def test_agents_and_hypernodes_are_read() -> None:
    scenario = read(FULL)
    full, bare = scenario.agents
    assert (full.agent_id, full.available_slots) == ("n1", parse_slots("cpu=0.5 mem=4Gi cuda.device=8"))
    assert (full.labels, full.architecture, full.kernels_max) == ({"role": "7"}, "aarch64", 10)
    assert (full.status, full.shard) == (AgentStatus.DRAINING, "east")
    assert (bare.available_slots, bare.architecture, bare.kernels_max) == (parse_slots(""), "x86_64", None)
    assert bare.status is AgentStatus.ALIVE
    assert [(node.name, node.tier, node.tier_name, node.members) for node in scenario.hypernodes] == [
        ("s0", 1, None, ("n1", "n2")),
        ("s2", 2, "rack", ("s0",)),
    ]


def test_queues_are_read() -> None:
    full, bare = read(FULL).queues
    assert (full.name, full.weight, full.priority, full.parent) == ("q1", 2, 3, "q0")
    assert (full.state, full.reclaimable) == (QueueState.CLOSED, False)
    assert (full.capability, full.deserved) == (slot_limits("cpu=4"), slot_limits("cpu=2"))
    assert full.guarantee == parse_slots("cpu=1")
    assert (bare.weight, bare.parent, bare.state) == (1, "root", QueueState.OPEN)


def test_sessions_are_read_in_the_order_in_which_they_were_submitted() -> None:
    full, bare = read(FULL).sessions
    assert (full.session_id, full.submitted, full.queue, full.priority) == ("train", 0, "q1", 10)
    owner = full.owner
    assert (owner.user, owner.group, owner.domain, owner.access_key) == ("alice", "lab", "uni", "key")
    assert (full.min_kernels, full.group_minimums, full.preemptible) == (2, {"master": 1}, False)
    assert (full.preemption, full.hypernode, full.dependencies) == (Preemption.NEVER, "s0", ("before",))
    assert (full.starts_at_ms, full.session_type) == (7000, SessionType.BATCH)
    assert full.topology is not None
    assert (full.topology.mode, full.topology.highest_tier) == (TopologyMode.SOFT, "rack")
    [part] = full.partitions
    assert part.topology is not None
    assert (part.name, part.by, part.size, part.min_groups) == ("workers", "instance", 2, 1)
    assert (part.topology.mode, part.topology.highest_tier) == (TopologyMode.HARD, 1)
    assert (bare.submitted, bare.queue, bare.owner.user) == (1, "default", "default")
    assert (bare.min_kernels, bare.session_type) == (None, SessionType.INTERACTIVE)


def test_kernels_are_read_in_index_order() -> None:
    first, second = read(FULL).sessions[0].kernels
    assert (first.kernel_id, first.group, first.slots) == ("k1", "master", parse_slots("cpu=1"))
    assert (first.require, first.architecture, first.image, first.priority) == ({"role": "7"}, "aarch64", "torch", 5)
    assert (first.agent, first.preemptible, first.releasing) == (None, True, False)
    assert (second.agent, second.nominated, second.labels) == ("n1", "n2", {"instance": "w1"})
    assert (second.preemptible, second.releasing) == (False, True)


def test_a_keypair_is_named_after_its_user_by_default() -> None:
    [session] = read("scenario: s\nsessions: {a: {user: bob, kernels: {k: }}}").sessions
    assert session.owner.access_key == "bob"


def test_a_name_alone_is_a_scenario() -> None:
    scenario = read("scenario: bare")
    assert (scenario.agents, scenario.sessions, scenario.queues, scenario.expect) == ((), (), (), {})
    assert (scenario.profile, scenario.cycles, scenario.now_ms) == (SchedulingProfile(), 1, 0)


def test_a_file_may_hold_several_scenarios_each_with_its_line() -> None:
    found = list(read_scenarios("scenario: one\n---\nscenario: two\n---\n\nscenario: three\n", "f.yaml"))
    assert [(scenario.name, scenario.line) for scenario in found] == [("one", 1), ("two", 3), ("three", 6)]


def test_two_scenarios_of_one_file_may_not_share_a_name() -> None:
    with pytest.raises(InvalidScenario, match="line 1 has a scenario of the same name") as refused:
        list(read_scenarios("scenario: one\n---\nscenario: one\n", "f.yaml"))
    assert (refused.value.where, refused.value.key) == ("f.yaml:3: scenario 'one'", "scenario")


def test_a_highest_tier_that_names_no_tier_is_no_format_error() -> None:
    [session] = read("scenario: s\nsessions: {a: {topology: {highest_tier: moon}, kernels: {k: }}}").sessions
    assert session.topology is not None
    assert session.topology.highest_tier == "moon"


def test_a_queue_that_is_named_but_not_listed_is_no_error() -> None:
    assert read("scenario: s\nsessions: {a: {queue: nowhere, kernels: {k: }}}").queues == ()


@pytest.fixture(autouse=True)
def small_files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limit, so that the alias bomb is cheap."""
    monkeypatch.setattr(documents, "NODES_MAX", 1000)


def refusal(row: Malformed) -> InvalidScenario:
    """The error for a malformed scenario."""
    with pytest.raises(InvalidScenario) as refused:
        list(read_scenarios(row.text, "bad.yaml"))
    return refused.value


@pytest.mark.parametrize("row", NAMED, ids=lambda row: row.what)
def test_a_malformed_scenario_is_refused_with_file_line_scenario_and_key(row: Malformed) -> None:
    error = refusal(row)
    assert error.where == f"bad.yaml:{row.line}: scenario 's'"
    assert error.key == row.key or (not row.key and row.what == "an alias bomb")
    assert row.problem in error.problem
    assert error.message.startswith(f"{error.where}: ")


@pytest.mark.parametrize("row", NAMELESS, ids=lambda row: row.what)
def test_a_document_that_is_no_scenario_is_refused_with_file_and_line(row: Malformed) -> None:
    error = refusal(row)
    assert (error.where, error.key) == (f"bad.yaml:{row.line}", row.key)
    assert row.problem in error.problem


@pytest.mark.parametrize("row", MALFORMED, ids=lambda row: row.what)
def test_every_refusal_has_a_hint(row: Malformed) -> None:
    error = refusal(row)
    assert error.code == "invalid-scenario"
    assert error.hint
