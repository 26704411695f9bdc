"""Explainer: a verdict per session, with a code, a sentence and numbers."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.cluster.queue import QueueState
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.slot_notation import parse_slots
from sokovan.domain.slots import NO_SLOTS
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import RESERVED_FOR, Advice, Check, Code, Funnel, Verdict
from tests.unit.scheduling.engine.builders import (
    agent,
    agents,
    gang,
    hard,
    kernel,
    limited,
    owner,
    planned,
    queue,
    rack,
    session,
    snapshot,
    soft,
    using,
)


def verdict_of(given: SystemSnapshot, name: str = "s", *plugins: SchedulingPlugin, **profile: Any) -> Verdict:
    return planned(given, *plugins, **profile).trace[SessionId(name)]


def code_and_summary(verdict: Verdict) -> tuple[str, str]:
    return verdict.code.value, verdict.summary


def busy(name: str, slots: str, used: str, **more: Any) -> AgentInfo:
    """An agent that is used by other queues."""
    return agent(name, slots, used=used, **more)


# Placed and reserved


def test_a_placed_session_gets_a_verdict_with_where() -> None:
    verdict = verdict_of(snapshot(agents(1, "cpu=8"), gang("s", 1, "cpu=1")))
    assert verdict.code is Code.PLACED
    assert verdict.summary.startswith("placed")
    assert (verdict.kernels_fit, verdict.kernels_needed, verdict.kernels_placed) == (1, 1, 1)
    assert (verdict.position, verdict.ahead, verdict.advice) == (0, (), Advice.NOTHING)
    assert {check.result for check in verdict.checks} == {"ok"}


def test_an_elastic_session_gets_a_verdict_with_how_many_were_placed_and_why_the_rest_waits() -> None:
    small = [kernel(f"s-{index}", "cpu=1", priority=1) for index in range(2)]
    work = session("s", *small, kernel("large", "cpu=8"), min_kernels=1)
    verdict = verdict_of(snapshot([busy("a", "cpu=16", "cpu=10")], work))
    assert verdict.code is Code.PLACED
    assert verdict.summary.startswith("2 of 3 kernels placed")
    assert verdict.summary.endswith(
        "1 wait: insufficient resources: cpu=8 fits no agent now; best candidate a lacks cpu=4"
    )
    assert verdict.kernels_placed == 2


def test_a_session_that_waits_for_room_gets_a_verdict_with_how_many_kernels_are_reserved() -> None:
    verdict = verdict_of(snapshot([agent("a", "cpu=4", used="cpu=4", leaving="cpu=4")], gang("s", 3, "cpu=1")))
    assert code_and_summary(verdict) == (
        "RESERVED",
        "waits for room that is being released; 3 kernels have a reservation",
    )
    assert (verdict.kernels_fit, verdict.kernels_needed, verdict.kernels_placed) == (3, 3, 0)
    assert verdict.advice is Advice.WAIT
    assert verdict.checks[-1] == Check("room", "short", verdict.summary)


# Room


def test_not_enough_free_names_the_candidate_that_lacks_least_and_what_it_lacks() -> None:
    verdict = verdict_of(snapshot([busy("a", "cpu=8", "cpu=7"), busy("b", "cpu=8", "cpu=5")], gang("s", 1, "cpu=4")))
    text = "insufficient resources: cpu=4 fits no agent now; best candidate b lacks cpu=1"
    assert code_and_summary(verdict) == ("NOT_ENOUGH_FREE", text)
    assert (verdict.best_agent, verdict.shortfall) == ("b", parse_slots("cpu=1"))
    assert verdict.funnel == Funnel(2, alive=2, architecture=2, labels=2, could_ever_fit=2, fits_now=0, topology=0)
    assert (verdict.kernels_fit, verdict.kernels_needed) == (0, 1)
    assert verdict.checks[-1] == Check("room", "short", text)


def test_where_only_the_kernel_limit_is_reached_room_for_a_kernel_is_lacking() -> None:
    verdict = verdict_of(snapshot([agent("a", "cpu=8", kernels_max=2, kernel_count=2)], gang("s", 1, "cpu=1")))
    assert code_and_summary(verdict)[1].endswith("best candidate a lacks room for one more kernel")
    assert verdict.shortfall == NO_SLOTS


def test_what_others_took_in_this_cycle_is_counted_in_the_funnel() -> None:
    machines = [agent("a", "cpu=8"), busy("b", "cpu=8", "cpu=8")]
    given = snapshot(machines, gang("first", 1, "cpu=8"), gang("s", 1, "cpu=1"))
    funnel = verdict_of(given).funnel
    assert funnel is not None
    assert (funnel.could_ever_fit, funnel.fits_now) == (2, 0)


def test_a_gang_of_which_some_would_fit_is_fragmented_with_how_many() -> None:
    verdict = verdict_of(snapshot([busy("a", "cpu=4", "cpu=2"), busy("b", "cpu=4", "cpu=3")], gang("s", 4, "cpu=1")))
    text = "insufficient resources: 3 of 4 kernels would fit, cpu=1 is short"
    assert code_and_summary(verdict) == ("FRAGMENTED", text)
    assert (verdict.kernels_fit, verdict.kernels_needed) == (3, 4)
    assert verdict.funnel is not None
    assert verdict.funnel.fits_now == 2


def test_a_gang_of_different_kernels_gets_a_verdict_with_how_many_fitted_when_it_was_tried() -> None:
    work = session("s", kernel("large", "cpu=2"), *gang("k", 3, "cpu=1").kernels)
    verdict = verdict_of(snapshot([busy("a", "cpu=8", "cpu=4")], work))
    text = "insufficient resources: 3 of 4 kernels would fit, cpu=1 is short"
    assert code_and_summary(verdict) == ("FRAGMENTED", text)
    assert (verdict.kernels_fit, verdict.kernels_needed) == (3, 4)


def test_room_that_is_held_for_another_differs_from_missing_room() -> None:
    half = agent("a", "cpu=4", used="cpu=2", leaving="cpu=2")
    given = snapshot([half, busy("b", "cpu=4", "cpu=4")], gang("first", 1, "cpu=3"), gang("s", 1, "cpu=2"))
    verdict = verdict_of(given)
    summary = "the room for cpu=2 on a is reserved for a session ahead"
    assert code_and_summary(verdict) == ("RESERVED_FOR_GANG", summary)
    assert [one.detail for one in verdict.checks if one.name == RESERVED_FOR] == ["first"]


# Unschedulable


def test_a_scaling_group_without_agents_gets_that_code() -> None:
    verdict = verdict_of(snapshot([], gang("s", 1, "cpu=1")))
    assert code_and_summary(verdict) == ("NO_NODES", "the scaling group has no agents")
    assert verdict.funnel == Funnel(0, 0, 0, 0, 0, 0, 0)
    assert (verdict.best_agent, verdict.advice) == (None, Advice.ASK_ADMIN)


def test_draining_agents_that_could_hold_it_are_waited_for() -> None:
    machines = [agent("a", "cpu=1"), agent("b", "cpu=8", status=AgentStatus.DRAINING)]
    verdict = verdict_of(snapshot(machines, gang("s", 1, "cpu=4")))
    text = "no agent that could hold cpu=4 accepts work: 1 of 2 agents are being drained"
    assert code_and_summary(verdict) == ("NODES_DRAINING", text)


def test_a_session_in_a_drained_cluster_is_told_so() -> None:
    machines = [agent(name, "cpu=8", status=AgentStatus.DRAINING) for name in ("a", "b")]
    verdict = verdict_of(snapshot(machines, gang("s", 1, "cpu=4")))
    text = "no agent that could hold cpu=4 accepts work: all 2 agents are being drained"
    assert code_and_summary(verdict) == ("NODES_DRAINING", text)


def test_failing_agents_that_could_hold_it_are_counted_in_the_funnel() -> None:
    machines = [agent("a", "cpu=1"), agent("b", "cpu=8", health=AgentHealth(failing_ms=1))]
    verdict = verdict_of(snapshot(machines, gang("s", 1, "cpu=4")))
    text = "no agent that could hold cpu=4 accepts work: 1 of 2 agents are failing"
    assert code_and_summary(verdict) == ("AGENTS_FAILING", text)
    assert verdict.funnel is not None
    assert verdict.funnel.sentence().endswith("topology 0 (1 failing)")
    alone = verdict_of(snapshot(machines[1:], gang("s", 1, "cpu=4")))
    assert (alone.code, alone.advice) == ("AGENTS_FAILING", Advice.ASK_ADMIN)


def test_unreachable_agents_are_not_reported_as_draining() -> None:
    machines = [agent("a", "cpu=1"), agent("b", "cpu=8", status=AgentStatus.SUSPECT)]
    verdict = verdict_of(snapshot(machines, gang("s", 1, "cpu=4")))
    text = "no agent that could hold cpu=4 accepts work: 1 of 2 agents are not reachable"
    assert code_and_summary(verdict) == ("NODES_DRAINING", text)


def test_a_gang_for_which_agents_are_missing_gets_a_verdict_with_how_much_the_others_hold() -> None:
    machines = [agent("a", "cpu=2"), agent("b", "cpu=8", status=AgentStatus.LOST)]
    text = "of the 2 kernels that must start together, agents that accept work could hold 1 of cpu=1.5; "
    verdict = verdict_of(snapshot(machines, gang("s", 2, "cpu=1.5")))
    assert code_and_summary(verdict) == ("NODES_DRAINING", f"{text}1 of 2 agents are not reachable")


def test_an_architecture_that_no_agent_has_is_named() -> None:
    verdict = verdict_of(snapshot(agents(2, "cpu=1"), session("s", kernel("k", "cpu=1", architecture="riscv64"))))
    assert code_and_summary(verdict) == ("NO_ARCH_MATCH", "none of 2 agents has the architecture riscv64")


def test_labels_that_no_agent_has_are_named() -> None:
    verdict = verdict_of(
        snapshot(agents(2, "cpu=1"), session("s", kernel("k", "cpu=1", require={"zone": "east", "disk": "ssd"})))
    )
    assert code_and_summary(verdict) == ("NO_LABEL_MATCH", "none of 2 agents has the labels disk=ssd, zone=east")
    assert verdict.advice is Advice.CHANGE


def test_a_kernel_that_no_empty_agent_could_hold_gets_a_verdict_with_what_the_largest_lacks() -> None:
    machines = [agent("a", "cpu=4 mem=8Gi"), agent("b", "cpu=8 mem=8Gi")]
    verdict = verdict_of(snapshot(machines, gang("s", 1, "cpu=10 mem=1Gi")))
    text = "no agent could ever hold cpu=10 mem=1Gi; the largest candidate b lacks cpu=2"
    assert code_and_summary(verdict) == ("NEVER_FITS", text)
    assert (verdict.best_agent, verdict.shortfall) == ("b", parse_slots("cpu=2"))
    assert verdict.advice is Advice.CHANGE


def test_a_gang_that_an_empty_cluster_could_not_hold_gets_a_verdict_with_how_many_it_holds() -> None:
    verdict = verdict_of(snapshot(agents(2, "cpu=8"), gang("s", 5, "cpu=4")))
    assert code_and_summary(verdict) == (
        "NEVER_FITS",
        "an empty cluster holds 4 kernels of cpu=4, 5 must start together",
    )


def test_more_kernels_together_than_there_are_gets_the_numbers() -> None:
    verdict = verdict_of(snapshot(agents(1, "cpu=8"), gang("s", 2, "cpu=1", min_kernels=3)))
    assert code_and_summary(verdict) == ("NOT_ENOUGH_KERNELS", "3 kernels must start together, but the session has 2")
    assert verdict.checks[-1].result == "no"


# Topology


RACKS = (rack("r1", "a0", "a1"), rack("r2", "a2", "a3"))


def test_no_room_close_together_names_the_best_domain_and_how_many_it_holds() -> None:
    machines = [busy("a0", "cpu=4", "cpu=3"), *agents(4, "cpu=4")[1:3], busy("a3", "cpu=4", "cpu=2")]
    verdict = verdict_of(snapshot(machines, gang("s", 8, "cpu=1", topology=hard(1)), hypernodes=RACKS))
    text = "insufficient resources close together: 8 kernels of cpu=1; the best, r2, has room for 6"
    assert code_and_summary(verdict) == ("TOPOLOGY_NO_ROOM", text)
    assert verdict.funnel is not None
    assert (verdict.funnel.fits_now, verdict.funnel.topology) == (4, 0)
    tier = "HyperNodes 2 → could ever fit 2 → fits now 0; r2 has room for 6 kernels"
    assert verdict.checks[-2:] == (Check("topology", "short", text), Check("tier 1", "short", tier))


def main_and_subs(count: int, main: str, sub: str, **more: Any) -> SessionWorkload:
    subs = [kernel(f"s-{index}", sub, group="sub") for index in range(1, count)]
    return session("s", kernel("s-0", main, group="main"), *subs, **more)


def test_kernels_of_two_groups_share_the_room_of_a_domain() -> None:
    machines = [busy("a0", "cpu=4", "cpu=3"), *agents(4, "cpu=4")[1:3], busy("a3", "cpu=4", "cpu=2")]
    work = main_and_subs(8, "cpu=1", "cpu=1", topology=hard(1))
    assert code_and_summary(verdict_of(snapshot(machines, work, hypernodes=RACKS)))[1].endswith(
        "the best, r2, has room for 6"
    )


def test_kernels_of_two_sizes_leave_the_room_of_a_domain_uncertain() -> None:
    machines = [busy(f"a{index}", "cpu=4", "cpu=2") for index in range(4)]
    work = main_and_subs(8, "cpu=1.5", "cpu=1", topology=hard(1))
    assert code_and_summary(verdict_of(snapshot(machines, work, hypernodes=RACKS)))[1].endswith(
        "has room for at most 5"
    )


def test_no_room_at_all_close_together_gets_that_code() -> None:
    machines = [busy(f"a{index}", "cpu=4", "cpu=4") for index in range(4)]
    verdict = verdict_of(snapshot(machines, gang("s", 2, "cpu=1", topology=hard(1)), hypernodes=RACKS))
    assert code_and_summary(verdict)[1].endswith("none has room for any")


@pytest.mark.parametrize(
    ("work", "racks", "text"),
    [
        (hard(1), RACKS, "no allowed HyperNode could hold 9 kernels even if it were empty"),
        (hard("pod"), RACKS, "there is no tier named pod"),
        (hard(1), (), "a hard topology needs HyperNodes, and its scaling group has none"),
    ],
    ids=["too large for any", "unknown tier", "no HyperNodes"],
)
def test_a_topology_that_the_cluster_cannot_meet_is_impossible(
    work: object, racks: tuple[object, ...], text: str
) -> None:
    verdict = verdict_of(snapshot(agents(4, "cpu=4"), gang("s", 9, "cpu=1", topology=work), hypernodes=racks))
    assert code_and_summary(verdict) == ("TOPOLOGY_IMPOSSIBLE", text)
    assert verdict.advice is Advice.CHANGE


def test_a_soft_topology_without_room_is_not_a_topology_problem_alone() -> None:
    machines = [busy(f"a{index}", "cpu=4", "cpu=3") for index in range(4)]
    verdict = verdict_of(snapshot(machines, gang("s", 5, "cpu=1", topology=soft()), hypernodes=RACKS))
    assert verdict.code is Code.TOPOLOGY_NO_ROOM
    assert verdict.kernels_needed == 5


# Queues and owners


def test_a_queue_at_its_capability_gets_the_numbers() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        gang("first", 1, "cpu=3"),
        gang("s", 1, "cpu=2"),
        queues=(queue("default", capability="cpu=4"),),
    )
    verdict = verdict_of(given)
    assert code_and_summary(verdict) == (
        "QUEUE_LIMIT",
        "queue default uses 3 cpu and may use 4; 2 more would exceed it",
    )
    assert (verdict.checks[-1].name, verdict.checks[-1].detail) == ("queue", verdict.summary)


def test_a_queue_over_its_share_gets_the_numbers() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        gang("first", 1, "cpu=3"),
        gang("s", 1, "cpu=3"),
        gang("t", 1, "cpu=5", queue="other"),
        queues=(queue("default", capability="cpu=5"),),
    )
    verdict = verdict_of(given, queue_policy="proportion")
    text = "queue default uses 3 cpu and deserves 4; 3 more would exceed it"
    assert code_and_summary(verdict) == ("QUEUE_OVER_SHARE", text)


def test_what_is_only_tried_for_a_gang_is_not_counted_as_used() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        gang("first", 1, "cpu=3"),
        main_and_subs(3, "cpu=1", "cpu=1"),
        queues=(queue("default", capability="cpu=4"),),
    )
    assert code_and_summary(verdict_of(given)) == (
        "QUEUE_LIMIT",
        "queue default uses 3 cpu and may use 4; 3 more would exceed it",
    )


def test_a_queue_that_has_the_cluster_to_itself_waits_for_room() -> None:
    given = snapshot(agents(1, "cpu=2 mem=8Gi"), gang("first", 2, "cpu=1 mem=1Gi"), gang("s", 1, "cpu=1 mem=1Gi"))
    for policy in ("proportion", "capacity"):
        verdict = verdict_of(given, queue_policy=policy)
        assert code_and_summary(verdict) == (
            "NOT_ENOUGH_FREE",
            "insufficient resources: cpu=1 mem=1Gi fits no agent now; best candidate a0 lacks cpu=1",
        )
        assert verdict.checks[-1].name == "room"


def test_a_queue_whose_share_of_one_slot_is_short_gets_a_verdict_with_that_all_of_another_is_in_use() -> None:
    given = snapshot(
        agents(1, "cpu=2 mem=8Gi"),
        gang("first", 2, "cpu=1 mem=1Gi"),
        gang("s", 2, "cpu=1 mem=2Gi"),
        gang("t", 1, "mem=7Gi", queue="other"),
    )
    verdict = verdict_of(given, queue_policy="proportion")
    assert code_and_summary(verdict) == (
        "QUEUE_OVER_SHARE",
        "insufficient resources: 2 of 2 cpu are in use; the session requests 2",
    )
    assert verdict.checks[-2:] == (
        Check("queue", "ok", "queue default may use all cpu of the cluster"),
        Check("room", "short", "free now: 0 of 2 cpu"),
    )


def test_a_queue_that_has_all_it_deserves_gets_that_code() -> None:
    gangs = [gang(name, 2, "cpu=1", queue=name) for name in ("x", "y")]
    given = snapshot(agents(1, "cpu=4"), *gangs, gang("s", 1, "cpu=1", queue="x"), gang("t", 1, "cpu=1", queue="y"))
    assert code_and_summary(verdict_of(given, queue_policy="proportion")) == (
        "QUEUE_OVER_SHARE",
        "queue x has all of its deserved share",
    )


def test_a_session_that_no_action_serves_gets_the_action_that_would() -> None:
    verdict = verdict_of(snapshot(agents(1, "cpu=8"), gang("s", 1, "cpu=1")), actions=("enqueue",))
    assert verdict.code is Code.NOT_TRIED
    assert verdict.summary.endswith("add allocate to its actions")


@pytest.mark.parametrize(
    ("queues", "code"),
    [
        ((queue("q", state=QueueState.CLOSED),), "QUEUE_CLOSED"),
        ((queue("q"), queue("below", parent="q")), "QUEUE_NOT_LEAF"),
        ((queue("q", parent="gone"),), "QUEUE_INVALID"),
    ],
)
def test_a_queue_that_runs_no_session_is_reported_by_code(queues: tuple[object, ...], code: str) -> None:
    verdict = verdict_of(snapshot(agents(1, "cpu=8"), gang("s", 1, "cpu=1", queue="q"), queues=queues), hierarchy=True)
    assert verdict.code.value == code
    assert verdict.checks[-1].name == "queue"


def test_every_objection_of_a_rule_is_among_the_checks_beside_those_that_agree() -> None:
    given = snapshot(
        agents(1, "cpu=8"),
        gang("s", 1, "cpu=2", owner=owner("alice")),
        usage=using("alice", "cpu=3", sessions=1),
        limits=limited("alice", slots_max="cpu=4", sessions_max=1),
    )
    verdict = verdict_of(given)
    assert verdict.code is Code.QUOTA_KEYPAIR
    assert verdict.summary == "keypair alice requests 2 cpu with 3 of 4 in use; keypair alice runs 1 of 1 sessions"
    results = {check.name: check.result for check in verdict.checks}
    assert results["keypair-resource-limit"] == results["concurrency"] == "no"
    assert results["dependencies"] == "ok"


def test_a_best_effort_session_that_no_action_served_gets_the_action_that_would() -> None:
    verdict = verdict_of(snapshot(agents(1, "cpu=8"), gang("s", 1, "")), actions=("allocate",))
    assert verdict.code is Code.BEST_EFFORT
    assert "backfill places" in verdict.summary


# Sessions ahead


def test_sessions_of_a_queue_get_a_verdict_with_how_many_wait_before_them_and_who_the_first_are() -> None:
    waiting = [gang(f"w{index}", 1, "cpu=2") for index in range(5)]
    given = snapshot(
        [busy("a", "cpu=2", "cpu=2")],
        gang("elsewhere", 1, "cpu=2", queue="other"),
        *waiting,
        gang("s", 1, "cpu=2", priority=-1),
    )
    verdict = verdict_of(given)
    assert verdict.position == 5
    assert verdict.ahead == ("w0", "w1", "w2")
    assert verdict_of(given, "w0").position == verdict_of(given, "elsewhere").position == 0


def test_verdicts_come_by_priority_and_order_one_for_every_session_that_waits() -> None:
    sessions = (
        gang("old", 1, "cpu=1"),
        session("runs", kernel("r", "cpu=1", at="a0")),
        gang("urgent", 1, "cpu=1", priority=3),
    )
    plan = planned(snapshot(agents(1, "cpu=8"), *sessions))
    assert [verdict.session_id for verdict in plan.verdicts] == ["urgent", "old"]


# Edge cases


def test_of_two_agents_that_lack_much_memory_the_better_is_named_up_to_four_terabytes() -> None:
    verdict = verdict_of(snapshot([agent("a", "mem=1Ti"), agent("b", "mem=3Ti")], gang("s", 1, "mem=4Ti")))
    assert verdict.best_agent == "b"


def test_of_two_agents_that_lack_very_much_memory_the_better_is_named_too() -> None:
    verdict = verdict_of(snapshot([agent("a", "mem=1Ti"), agent("b", "mem=3Ti")], gang("s", 1, "mem=8Ti")))
    assert verdict.best_agent == "b"


def test_what_no_agent_could_ever_hold_gets_that_code_even_if_all_of_them_drain() -> None:
    draining = agent("a", "cpu=8", status=AgentStatus.DRAINING)
    assert verdict_of(snapshot([draining], gang("s", 1, "cpu=100"))).code is Code.NEVER_FITS


def test_a_session_that_only_another_shard_could_hold_gets_that_code() -> None:
    given = snapshot([agent("a", "cpu=8", shard="yours")], gang("s", 1, "cpu=1"))
    verdict = verdict_of(given, shard="mine", shard_mode="hard")
    assert verdict.code is Code.OTHER_SHARD
    assert verdict.advice is Advice.ASK_ADMIN


class Never(SchedulingPlugin):
    name = "never"

    def predicate(self, kernel: KernelWorkload, agent: AgentInfo) -> bool:
        del kernel, agent
        return False


def test_a_kernel_that_a_plugin_keeps_off_every_agent_is_not_reported_as_if_room_is_short() -> None:
    verdict = verdict_of(snapshot(agents(1, "cpu=4"), gang("s", 1, "cpu=1")), "s", Never())
    assert verdict.code is not Code.FRAGMENTED
    assert "4 of 1" not in verdict.summary


@pytest.mark.parametrize("policy", ["proportion", "capacity"])
@pytest.mark.parametrize("queues", [(), (queue("default", capability="mem=4Gi"),)])
def test_in_a_full_cluster_without_other_queues_room_is_what_is_short(policy: str, queues: tuple[Any, ...]) -> None:
    runs = session("runs", kernel("r", "cpu=4 mem=1Gi", at="a"))
    machine = busy("a", "cpu=4 mem=8Gi", "cpu=4 mem=1Gi")
    given = snapshot([machine], runs, gang("s", 1, "cpu=1 mem=1Gi"), queues=queues)
    assert verdict_of(given, queue_policy=policy).code is Code.NOT_ENOUGH_FREE


def test_a_best_effort_gang_without_places_close_together_gets_a_verdict_with_what_is_short() -> None:
    machines = [agent(name, "cpu=8", kernels_max=1) for name in ("a0", "a2")]
    racks = (rack("r1", "a0"), rack("r2", "a2"))
    verdict = verdict_of(snapshot(machines, gang("s", 2, "", topology=hard(1)), hypernodes=racks))
    assert "2 of 1" not in verdict.summary
    assert ",  is what" not in verdict.summary
