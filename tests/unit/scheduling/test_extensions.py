"""The twenty-nine extension points: each has an effect, and none can stop the cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.session import Partition, TopologyConstraint, TopologyMode
from sokovan.scheduling.engine.placement import TRIALS_MAX
from sokovan.scheduling.extensions import (
    EVICTION_POINTS,
    POINTS,
    DomainTrial,
    Extensions,
    GangView,
    PluginFailed,
    QueueView,
    SchedulingPlugin,
)
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
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

CLOSE = TopologyConstraint(TopologyMode.HARD, 1)
RACKS = (HyperNode("rack-a", 1, ("a",)), HyperNode("rack-b", 1, ("b",)))
# Everything on the agent is in use and being released.
EMPTYING = agent("a", "cpu=1", used="cpu=1", releasing_slots=agent("x", "cpu=1").available_slots, kernel_count=1)


def with_plugin(seen: SystemSnapshot, **points: Callable[..., object]) -> SchedulingPlan:
    """The plan when one plugin overrides these points."""
    return decide(seen, registry_with(plugin_with(**points)), queue_policy="capacity")


def without(seen: SystemSnapshot) -> SchedulingPlan:
    """The plan by the engine's own behaviour."""
    return decide(seen, queue_policy="capacity")


def one_place(*sessions: SessionWorkload) -> SystemSnapshot:
    """Room for one kernel of one cpu."""
    return snapshot([agent("a", "cpu=1")], sessions)


def two_agents(*sessions: SessionWorkload) -> SystemSnapshot:
    """Two equal agents, one per rack; a comes first by its name."""
    return snapshot([agent("a"), agent("b")], sessions, hypernodes=RACKS)


def grouped(name: str, *, size: int = 1, topology: TopologyConstraint | None = None) -> SessionWorkload:
    """A session of two kernel groups, of which any kernel may start alone."""
    kernels = [kernel(f"{name}.{group}", labels={"instance": group}) for group in ("w1", "w2")]
    part = Partition("workers", "instance", size=size, topology=topology)
    return session(name, *kernels, min_kernels=1, partitions=(part,))


def test_queue_order_says_which_queue_goes_first() -> None:
    seen = one_place(session("s", queue="a"), session("t", queue="b"))
    assert started(without(seen)) == ["s"]

    def b_first(queue: QueueView) -> tuple[int, ...]:
        return (0 if queue.name == "b" else 1,)

    assert started(with_plugin(seen, queue_order=b_first)) == ["t"]


def test_session_order_says_which_session_of_a_queue_goes_first() -> None:
    seen = one_place(session("old"), session("young"))
    assert started(without(seen)) == ["old"]

    def youngest_first(one: SessionWorkload) -> tuple[int, ...]:
        return (-one.submitted,)

    assert started(with_plugin(seen, session_order=youngest_first)) == ["young"]


def test_session_order_stays_below_priority() -> None:
    seen = one_place(session("urgent", priority=1), session("young"))
    assert started(with_plugin(seen, session_order=lambda one: (-one.submitted,))) == ["urgent"]


def test_kernel_order_says_which_kernel_of_a_session_goes_first() -> None:
    seen = one_place(session("s", "cpu=1", "cpu=1", min_kernels=1))
    assert where(without(seen)) == {"s.0": "a"}

    def last_first(one: KernelWorkload) -> tuple[int, ...]:
        return (-int(one.kernel_id[-1]),)

    assert where(with_plugin(seen, kernel_order=last_first)) == {"s.1": "a"}


def test_group_order_says_which_of_equally_wanted_kernel_groups_goes_first() -> None:
    seen = one_place(grouped("s"))
    assert where(without(seen)) == {"s.w1": "a"}

    def w2_first(_session: SessionWorkload, group: str) -> tuple[int, ...]:
        return (0 if group == "w2" else 1,)

    assert where(with_plugin(seen, group_order=w2_first)) == {"s.w2": "a"}


def test_overused_ends_the_cycle_for_a_queue_and_of_no_other() -> None:
    seen = two_agents(session("s", queue="a"), session("t", queue="b"))
    plan = with_plugin(seen, overused=lambda queue: queue.name == "a")
    assert started(plan) == ["t"]
    assert verdict_of(plan, "s").code is Code.REFUSED_BY_PLUGIN
    assert verdict_of(plan, "s").summary == "plugin tester marks queue a as overused"


def test_allocatable_keeps_a_kernel_out_of_its_queue() -> None:
    def small_only(queue: QueueView, one: KernelWorkload) -> bool:
        return queue.name == "default" and one.slots["cpu"] <= 1000

    plan = with_plugin(two_agents(session("large", "cpu=2"), session("small", "cpu=1")), allocatable=small_only)
    assert started(plan) == ["small"]
    assert verdict_of(plan, "large").code is Code.REFUSED_BY_PLUGIN
    assert verdict_of(plan, "large").summary == "plugin tester keeps kernel large.0 out of queue default"


def test_session_valid_refuses_a_session_with_the_plugins_own_text() -> None:
    def not_today(one: SessionWorkload) -> str | None:
        return "not on a Tuesday" if one.session_id == "s" else None

    plan = with_plugin(two_agents(session("s"), session("t")), session_valid=not_today)
    assert started(plan) == ["t"]
    assert (verdict_of(plan, "s").code, verdict_of(plan, "s").summary) == (Code.REFUSED_BY_PLUGIN, "not on a Tuesday")


def test_pre_predicate_refuses_a_kernel_everywhere_with_the_plugins_own_text() -> None:
    def no_licence(one: SessionWorkload, each: KernelWorkload) -> str | None:
        return f"no licence for {each.kernel_id}" if one.session_id == "s" else None

    plan = with_plugin(two_agents(session("s"), session("t")), pre_predicate=no_licence)
    assert started(plan) == ["t"]
    assert (verdict_of(plan, "s").code, verdict_of(plan, "s").summary) == (Code.REFUSED_BY_PLUGIN, "no licence for s.0")


def test_predicate_keeps_a_kernel_from_an_agent() -> None:
    def not_on_a(one: KernelWorkload, candidate: AgentInfo) -> bool:
        return (one.kernel_id, candidate.agent_id) != ("s.0", "a")

    assert where(with_plugin(two_agents(session("s"), session("t")), predicate=not_on_a)) == {"s.0": "b", "t.0": "b"}


def test_batch_agent_order_scores_all_candidates_at_once() -> None:
    def b_best(_kernel: KernelWorkload, candidates: Sequence[AgentInfo]) -> list[int]:
        return [10 if candidate.agent_id == "b" else 0 for candidate in candidates]

    assert where(with_plugin(two_agents(session("s")), batch_agent_order=b_best)) == {"s.0": "b"}


def b_is_better(_kernel: KernelWorkload, candidate: AgentInfo) -> int:
    """A raw score that prefers agent b."""
    return 10 if candidate.agent_id == "b" else 3


def test_agent_order_map_scores_one_candidate_at_a_time() -> None:
    assert where(with_plugin(two_agents(session("s")), agent_order_map=b_is_better)) == {"s.0": "b"}


def test_agent_order_reduce_replaces_a_plugins_raw_scores() -> None:
    def turned_round(_kernel: KernelWorkload, scores: Mapping[str, int]) -> dict[str, int]:
        return {name: -score for name, score in scores.items()}

    plan = with_plugin(two_agents(session("s")), agent_order_map=b_is_better, agent_order_reduce=turned_round)
    assert where(plan) == {"s.0": "a"}


def test_scores_of_several_points_are_added_and_a_tie_is_left_to_the_selector() -> None:
    def a_is_better(_kernel: KernelWorkload, candidates: Sequence[AgentInfo]) -> list[int]:
        return [7 if candidate.agent_id == "a" else 0 for candidate in candidates]

    seen = two_agents(session("s"))
    assert where(with_plugin(seen, agent_order_map=b_is_better, batch_agent_order=a_is_better)) == {"s.0": "a"}


def test_best_agent_is_taken_whatever_the_scores() -> None:
    def always_a(_kernel: KernelWorkload, scores: Mapping[str, int]) -> str:
        assert scores == {"a": 3, "b": 10}
        return "a"

    assert where(with_plugin(two_agents(session("s")), agent_order_map=b_is_better, best_agent=always_a)) == {
        "s.0": "a"
    }


def test_session_pipelined_keeps_a_session_from_holding_a_reservation() -> None:
    seen = snapshot([EMPTYING], [session("s")])
    assert [held.agents for held in without(seen).reservations] == [("a",)]
    plan = with_plugin(seen, session_pipelined=lambda gang: gang.reserved > 1)
    assert plan.reservations == ()
    assert verdict_of(plan, "s").code is not Code.RESERVED


def test_group_ready_keeps_a_kernel_group_from_counting() -> None:
    def only_w2(gang: GangView) -> bool:
        return gang.group == "w2"

    assert where(with_plugin(two_agents(grouped("s")), group_ready=only_w2)) == {"s.w2": "a"}


def test_group_pipelined_keeps_a_kernel_group_from_waiting() -> None:
    seen = snapshot([EMPTYING], [grouped("s")])
    assert [held.kernels for held in without(seen).reservations] == [(("s.w1", "a"),)]
    assert with_plugin(seen, group_pipelined=lambda gang: gang.group == "w2").reservations[0].kernels == (
        ("s.w2", "a"),
    )


def test_domains_for_session_says_which_hypernodes_a_session_may_use() -> None:
    seen = two_agents(session("s", topology=CLOSE))
    assert where(without(seen)) == {"s.0": "a"}

    def not_rack_a(_session: SessionWorkload, domains: Sequence[str]) -> list[str]:
        return [domain for domain in domains if domain != "rack-a"]

    assert where(with_plugin(seen, domains_for_session=not_rack_a)) == {"s.0": "b"}


def test_domains_for_group_says_which_hypernodes_a_kernel_group_may_use() -> None:
    seen = two_agents(grouped("s", topology=CLOSE))
    assert where(without(seen)) == {"s.w1": "a", "s.w2": "a"}

    def w1_elsewhere(_session: SessionWorkload, group: str, domains: Sequence[str]) -> list[str]:
        return [domain for domain in domains if (group, domain) != ("w1", "rack-a")]

    assert where(with_plugin(seen, domains_for_group=w1_elsewhere))["s.w1"] == "b"


def test_domain_order_scores_the_hypernodes_of_a_tier() -> None:
    def rack_b_best(_session: SessionWorkload, domains: Sequence[str]) -> list[int]:
        return [1 if domain == "rack-b" else 0 for domain in domains]

    assert where(with_plugin(two_agents(session("s", topology=CLOSE)), domain_order=rack_b_best)) == {"s.0": "b"}


def test_trial_order_compares_the_hypernodes_by_what_a_trial_placed_where() -> None:
    seen: list[DomainTrial] = []

    def last(_session: SessionWorkload, trials: Sequence[DomainTrial]) -> list[int]:
        seen.extend(trials)
        return list(range(len(trials)))

    cluster = two_agents(session("s", topology=CLOSE))
    assert where(without(cluster)) == {"s.0": "a"}
    assert where(with_plugin(cluster, trial_order=last)) == {"s.0": "b"}
    assert [tuple(trial) for trial in seen] == [("rack-a", (("s.0", "a"),), ()), ("rack-b", (("s.0", "b"),), ())]


def test_a_trial_leaves_no_trace_and_only_the_first_hypernodes_of_a_tier_are_tried() -> None:
    tried: list[str] = []

    def watched(_session: SessionWorkload, trials: Sequence[DomainTrial]) -> None:
        tried.extend(trial.domain for trial in trials)

    agents = [agent(f"a{number}") for number in range(TRIALS_MAX + 2)]
    racks = [HyperNode(f"r{number}", 1, (f"a{number}",)) for number in range(len(agents))]
    cluster = snapshot(agents, [session("s", topology=CLOSE)], hypernodes=racks)
    assert with_plugin(cluster, trial_order=watched).placements == without(cluster).placements
    assert tried == [f"r{number}" for number in range(TRIALS_MAX)]


def test_session_ready_keeps_a_session_from_starting() -> None:
    plan = with_plugin(
        two_agents(session("s"), session("t")), session_ready=lambda gang: gang.session.session_id != "s"
    )
    assert started(plan) == ["t"]
    assert verdict_of(plan, "s").code is not Code.PLACED


def test_a_gang_view_counts_what_runs_what_is_placed_and_what_must_be_there() -> None:
    views: list[GangView] = []

    def watched(gang: GangView) -> bool:
        views.append(gang)
        return True

    grows = session("s", kernel("s.0", on="a"), kernel("s.1"), kernel("s.2"))
    with_plugin(snapshot([agent("a", used="cpu=1", kernel_count=1)], [grows]), session_ready=watched)
    [seen] = views
    assert (seen.session.session_id, seen.group, seen.minimum, seen.running, seen.placed, seen.reserved) == (
        "s", "", 3, 1, 2, 0,
    )  # fmt: skip


def test_a_queue_view_says_what_the_queue_has_and_deserves() -> None:
    views: list[QueueView] = []

    def watched(queue: QueueView) -> bool:
        views.append(queue)
        return False

    runs = session("s", kernel("s.0", "cpu=1", on="a"), kernel("s.1", "cpu=1"), queue="q")
    seen = snapshot([agent("a", used="cpu=1", kernel_count=1)], [runs])
    decide(seen, registry_with(plugin_with(overused=watched)), queue_policy="proportion")
    first = views[0]
    assert (first.name, first.priority, first.weight) == ("q", 0, 1)
    assert (first.allocated, first.deserved) == ({"cpu": 1000}, {"cpu": 2000})


# For each point, sessions for which the engine calls it. The plugin raises for the name `bad`.
GATHERED: dict[str, Callable[[], SystemSnapshot]] = {
    "queue_order": lambda: two_agents(session("bad", queue="bad"), session("good", queue="good")),
    "overused": lambda: two_agents(session("bad", queue="bad"), session("good", queue="good")),
    "kernel_order": lambda: two_agents(session("bad", "cpu=1", "cpu=2"), session("good", "cpu=1", "cpu=2")),
    "group_order": lambda: two_agents(grouped("bad"), grouped("good")),
    "group_ready": lambda: two_agents(grouped("bad"), grouped("good")),
    "session_pipelined": lambda: snapshot([EMPTYING, agent("b", "mem=2")], [session("bad"), session("good", "mem=2")]),
    "group_pipelined": lambda: snapshot([EMPTYING, agent("b", "mem=2")], [grouped("bad"), session("good", "mem=2")]),
    "domains_for_session": lambda: two_agents(session("bad", topology=CLOSE), session("good", topology=CLOSE)),
    "domain_order": lambda: two_agents(session("bad", topology=CLOSE), session("good", topology=CLOSE)),
    "trial_order": lambda: two_agents(session("bad", topology=CLOSE), session("good", topology=CLOSE)),
    "domains_for_group": lambda: two_agents(grouped("bad", topology=CLOSE), grouped("good", topology=CLOSE)),
}


def raising_at(point: str) -> dict[str, Callable[..., object]]:
    """A plugin that raises at a point for the name `bad`."""
    own = getattr(SchedulingPlugin(), point)

    def answer(*arguments: object) -> object:
        if "bad" in repr(arguments):
            raise RuntimeError("out of cheese")
        return own(*arguments)

    points: dict[str, Callable[..., object]] = {point: answer}
    if point == "agent_order_reduce":
        points["agent_order_map"] = b_is_better
    return points


# Those of evictions are tested with the actions that evict.
@pytest.mark.parametrize("point", [point for point in POINTS if point not in {"queue_order", *EVICTION_POINTS}])
def test_a_plugin_that_raises_hurts_the_session_at_hand_and_no_other(point: str) -> None:
    make = GATHERED.get(point, lambda: two_agents(session("bad"), session("good")))
    plan = with_plugin(make(), **raising_at(point))
    assert "good" in started(plan)
    assert "bad" not in started(plan)
    verdict = verdict_of(plan, "bad")
    assert verdict.code is Code.PLUGIN_FAILED
    assert verdict.summary == f"plugin tester failed in {point}: RuntimeError: out of cheese"


def test_a_failing_order_of_queues_leaves_the_engines_own_order_and_is_named_in_every_verdict() -> None:
    seen = two_agents(session("bad", queue="bad"), session("good", queue="good"))
    plan = with_plugin(seen, **raising_at("queue_order"))
    assert started(plan) == started(without(seen))
    for name in ("bad", "good"):
        details = [check.detail for check in verdict_of(plan, name).checks if check.result == "no"]
        assert details == ["plugin tester failed in queue_order: RuntimeError: out of cheese"]


# An answer of the wrong type counts as a failure of the plugin.
WRONG_ANSWERS: dict[str, object] = {
    "kernel_order": None,
    "group_order": None,
    "session_order": ("first",),
    "batch_agent_order": [1],
    "agent_order_map": "high",
    "agent_order_reduce": None,
    "domains_for_session": None,
    "domains_for_group": None,
    "domain_order": [1, 2, 3],
}


@pytest.mark.parametrize(("point", "answer"), WRONG_ANSWERS.items())
def test_an_answer_of_the_wrong_kind_is_a_failure_of_the_plugin(point: str, answer: object) -> None:
    points = {**raising_at(point), point: lambda *_arguments: answer}
    make = GATHERED.get(point, lambda: two_agents(session("bad")))
    verdict = verdict_of(with_plugin(make(), **points), "bad")
    assert verdict.code is Code.PLUGIN_FAILED
    assert verdict.summary.startswith(f"plugin tester failed in {point}: ")


def test_scores_for_agents_that_are_no_candidates_and_a_best_agent_that_is_none_are_ignored() -> None:
    plan = with_plugin(
        two_agents(session("s")),
        agent_order_map=b_is_better,
        agent_order_reduce=lambda _kernel, scores: {**scores, "elsewhere": 99},
        best_agent=lambda _kernel, _scores: "elsewhere",
    )
    assert where(plan) == {"s.0": "b"}


def test_a_gang_that_a_plugin_breaks_half_way_is_rolled_back() -> None:
    def breaks_on_the_second(one: KernelWorkload, _agent: AgentInfo) -> bool:
        if one.kernel_id == "gang.1":
            raise RuntimeError("out of cheese")
        return True

    seen = snapshot([agent("a", "cpu=2")], [session("gang", "cpu=1", "cpu=1"), session("good", "cpu=2")])
    assert where(with_plugin(seen, predicate=breaks_on_the_second)) == {"good.0": "a"}


def test_there_are_twenty_nine_points_and_every_one_is_a_method_with_its_name_in_volcano() -> None:
    assert len(POINTS) == 29
    for name, point in POINTS.items():
        assert callable(getattr(SchedulingPlugin, name))
        assert point.volcano
        assert point.combines
        assert point.meaning


def test_a_plugin_that_overrides_nothing_changes_nothing() -> None:
    seen = two_agents(session("s", "cpu=1", "cpu=1", topology=CLOSE), grouped("t"))
    assert with_plugin(seen) == without(seen)


def test_a_plugin_is_called_only_at_the_points_that_it_overrides() -> None:
    talker = plugin_with(overused=lambda queue: queue is None)()
    extensions = Extensions([talker, SchedulingPlugin()])
    assert extensions.at("overused") == [talker]
    assert not any(extensions.at(point) for point in POINTS if point != "overused")


def test_the_answers_of_several_plugins_come_in_the_order_of_the_profile() -> None:
    first, second = plugin_with(session_order=lambda _one: (1,))(), plugin_with(session_order=lambda _one: (2,))()
    assert Extensions([second, first]).call_all("session_order", session("s")) == [(2,), (1,)]


def test_a_failure_names_plugin_point_and_error_even_for_a_plugin_without_a_name() -> None:
    class Nameless(SchedulingPlugin):
        def overused(self, queue: QueueView) -> bool:
            raise KeyError(queue.name)

    with pytest.raises(PluginFailed, match="plugin Nameless failed in overused: KeyError: 'q'") as failed:
        Extensions([Nameless()]).call_all("overused", QueueView("q", 0, 0, 1, {}, {}))
    assert (failed.value.plugin, failed.value.point) == ("Nameless", "overused")
