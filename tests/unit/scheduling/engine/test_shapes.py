"""Shapes: equal requests are evaluated once, against all agents."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.agent import RUNTIME_LABEL
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.slot_notation import parse_slots
from sokovan.domain.slots import NO_SLOTS
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Advice, Funnel, Verdict
from tests.unit.scheduling.engine.builders import EngineParts, agent, kernel, planned, session, snapshot

ZONES = {"zone": "east", "disk": "ssd"}


def test_kernels_with_equal_requests_share_one_shape_whatever_else_they_are() -> None:
    engine = EngineParts(agent("a1", "cpu=8"))
    first = kernel("k1", "cpu=1", require={"zone": "east", "disk": "ssd"}, priority=7, image="python")
    second = kernel("k2", "cpu=1", require={"disk": "ssd", "zone": "east"}, group="workers")
    assert engine.table.of(first) is engine.table.of(second)


@pytest.mark.parametrize(
    "other",
    [
        kernel("k", "cpu=2"),
        kernel("k", "cpu=1", architecture="aarch64"),
        kernel("k", "cpu=1", require={"zone": "east"}),
    ],
    ids=["slots", "architecture", "labels"],
)
def test_slots_architecture_and_required_labels_each_make_a_shape_of_their_own(other: object) -> None:
    engine = EngineParts(agent("a1", "cpu=8"))
    assert engine.table.of(other) is not engine.shape("cpu=1")  # type: ignore[arg-type]  # parametrized


def test_the_funnel_counts_the_agents_that_are_left_after_each_question() -> None:
    engine = EngineParts(
        agent("lost", "cpu=8", labels=ZONES, status=AgentStatus.LOST),
        agent("other-architecture", "cpu=8", labels=ZONES, architecture="aarch64"),
        agent("other-zone", "cpu=8", labels={"zone": "west", "disk": "ssd"}),
        agent("too-small", "cpu=1", labels=ZONES),
        agent("busy", "cpu=8", used="cpu=7", labels=ZONES),
        agent("free", "cpu=8", labels=ZONES),
    )
    shape = engine.shape("cpu=2", require=ZONES)
    assert shape.funnel == Funnel(6, alive=5, architecture=4, labels=3, could_ever_fit=2, fits_now=1, topology=1)
    assert [engine.workspace.ids[index] for index in shape.eligible.nonzero()[0]] == ["busy", "free"]


def test_kernels_go_to_agents_that_can_run_their_image() -> None:
    runtimes = {"p": "process", "d": "docker", "f": "fake"}
    engine = EngineParts(
        *(agent(name, "cpu=8", labels={RUNTIME_LABEL: runtime}) for name, runtime in runtimes.items()),
        agent("unlabelled", "cpu=8"),
    )

    def eligible(**more: Any) -> list[str]:
        shape = engine.table.of(kernel("k", "cpu=1", **more))
        assert 4 - shape.funnel.other_runtime == shape.funnel.labels == int(shape.eligible.sum())
        return [engine.workspace.ids[index] for index in shape.eligible.nonzero()[0]]

    assert eligible() == ["d", "f", "p", "unlabelled"]
    assert eligible(image="host") == eligible(image="venv:torch") == ["f", "p", "unlabelled"]
    assert eligible(image="python:3.12") == ["d", "f", "unlabelled"]
    assert eligible(image="host", serves=True) == ["p", "unlabelled"]
    assert eligible(image="python:3.12", serves=True) == ["d", "unlabelled"]


def test_images_of_one_runtime_share_a_shape() -> None:
    engine = EngineParts(agent("a1", "cpu=8", labels={RUNTIME_LABEL: "docker"}))
    first, second = (engine.table.of(kernel("k", "cpu=1", image=image)) for image in ("python:3.12", "torch"))
    assert first is second is not engine.table.of(kernel("k", "cpu=1", image="host"))


def test_a_busy_agent_is_eligible_and_a_draining_one_is_only_possible() -> None:
    engine = EngineParts(
        agent("busy", "cpu=4", used="cpu=4"),
        agent("draining", "cpu=8", status=AgentStatus.DRAINING),
    )
    shape = engine.shape("cpu=2")
    assert shape.ever_total == 2
    assert shape.possible_total == 6


def test_counts_say_how_many_kernels_each_agent_takes_now_later_and_if_it_were_empty() -> None:
    engine = EngineParts(
        agent("a1", "cpu=8", used="cpu=5", leaving="cpu=2"),
        agent("a2", "cpu=8", used="cpu=8"),
        agent("a3", "cpu=8", architecture="aarch64"),
    )
    shape = engine.shape("cpu=2")
    assert shape.fit_counts(engine.workspace).tolist() == [1, 0, 0]
    assert shape.future_counts(engine.workspace).tolist() == [2, 0, 0]
    assert shape.ever_counts(engine.workspace).tolist() == [4, 4, 0]


def test_the_scarcest_slot_and_the_kernel_limit_bound_how_many_fit() -> None:
    engine = EngineParts(agent("a1", "cpu=8 mem=3Gi"), agent("a2", "cpu=8 mem=64Gi", kernels_max=2))
    assert engine.shape("cpu=1 mem=1Gi").fit_counts(engine.workspace).tolist() == [3, 2]


def test_a_kernel_without_a_request_still_counts_towards_the_kernel_limit() -> None:
    engine = EngineParts(agent("a1", "cpu=8", kernels_max=0), agent("a2", "cpu=8", kernels_max=3))
    assert engine.shape("").fit_counts(engine.workspace).tolist() == [0, 3]
    assert engine.shape("").slot_pairs == []


def test_an_agent_that_is_over_its_capacity_takes_none_rather_than_less_than_none() -> None:
    engine = EngineParts(agent("a1", "cpu=2", used="cpu=5"))
    assert engine.shape("cpu=1").fit_counts(engine.workspace).tolist() == [0]
    assert engine.shape("cpu=1").future_counts(engine.workspace).tolist() == [0]


def test_room_that_is_held_for_later_does_not_count_now() -> None:
    engine = EngineParts(agent("a1", "cpu=8", used="cpu=4", leaving="cpu=4"))
    shape = engine.shape("cpu=1")
    engine.reserve("cpu=6", "a1")
    assert shape.fit_counts(engine.workspace).tolist() == [2]
    assert shape.future_counts(engine.workspace).tolist() == [2]


def test_a_slot_that_no_agent_has_fits_nowhere() -> None:
    engine = EngineParts(agent("a1", "cpu=8 fpga.device=0"), agent("a2", "fpga.device=2"))
    assert engine.shape("fpga.device=1").funnel.could_ever_fit == 1
    assert engine.shape("cpu=1 fpga.device=1").funnel.could_ever_fit == 0


def test_the_penalty_counts_the_kinds_of_accelerators_that_would_stand_unused() -> None:
    engine = EngineParts(
        agent("plain", "cpu=8"),
        agent("gpu", "cpu=8 cuda.device=8"),
        agent("both", "cpu=8 cuda.device=8 tpu.device=1"),
    )
    by_agent = dict(zip(engine.workspace.ids, engine.table.penalty(engine.shape("cpu=1")).tolist(), strict=True))
    assert by_agent == {"plain": 0, "gpu": 1, "both": 2}
    by_agent = dict(
        zip(engine.workspace.ids, engine.table.penalty(engine.shape("cuda.device=1")).tolist(), strict=True)
    )
    assert by_agent == {"plain": 0, "gpu": 0, "both": 1}


def test_hard_shards_rule_other_agents_out_and_soft_ones_do_not() -> None:
    machines = (agent("a1", "cpu=8", shard="mine"), agent("a2", "cpu=8", shard="yours"), agent("a3", "cpu=8"))
    assert EngineParts(*machines, own_shard="mine", hard_shards=True).shape("cpu=1").eligible.tolist() == [
        True,
        False,
        False,
    ]
    assert EngineParts(*machines, own_shard="mine").shape("cpu=1").eligible.tolist() == [True, True, True]
    shape = EngineParts(*machines, own_shard="mine", hard_shards=True).shape("cpu=1")
    assert (shape.ever_total, shape.alive_total) == (8, 24)


def test_all_labels_must_match_by_name_and_value() -> None:
    engine = EngineParts(agent("a1", "cpu=1", labels=ZONES), agent("a2", "cpu=1", labels={"zone": "east"}))
    assert engine.table.has_labels(ZONES.items()).tolist() == [True, False]
    assert engine.table.has_labels([("zone", "east")]).tolist() == [True, True]
    assert engine.table.has_labels([("zone", "")]).tolist() == [False, False]
    assert engine.table.has_labels([]).tolist() == [True, True]


def test_a_fit_error_counts_agents_by_predicate_and_names_the_best_candidate() -> None:
    engine = EngineParts(
        agent("full", "cpu=4", used="cpu=3"),
        agent("busy", "cpu=4", used="cpu=2"),
        agent("other", "cpu=4", architecture="aarch64"),
        agent("small", "cpu=1"),
    )
    error = engine.shape("cpu=3").fit_error(engine.workspace)
    assert error.funnel == Funnel(4, 4, 3, 3, 2, 0, 0)
    assert (error.kernels_fit, error.held_agent) == (0, None)
    assert (error.best_agent, error.shortfall) == ("busy", parse_slots("cpu=1"))


def test_a_fit_error_of_a_shape_beyond_every_agent_names_the_largest_and_its_shortfall() -> None:
    engine = EngineParts(agent("small", "cpu=2"), agent("large", "cpu=8", used="cpu=8"))
    error = engine.shape("cpu=9").fit_error(engine.workspace)
    assert (error.best_agent, error.shortfall) == (None, NO_SLOTS)
    assert (error.largest_agent, error.largest_shortfall) == ("large", parse_slots("cpu=1"))


def test_a_fit_error_says_if_the_room_is_held_for_a_reservation() -> None:
    engine = EngineParts(agent("a1", "cpu=8", used="cpu=4", leaving="cpu=4"))
    engine.reserve("cpu=6", "a1")
    engine.workspace.holders[0] = "gang"
    error = engine.shape("cpu=4").fit_error(engine.workspace)
    assert (error.kernels_fit, error.held_agent, error.holder) == (0, "a1", "gang")


def test_a_fit_error_says_if_the_room_was_taken_for_a_session_that_waits() -> None:
    engine = EngineParts(agent("a1", "cpu=8"), agent("a2", "cpu=8", used="cpu=8"))
    shape = engine.shape("cpu=6")
    engine.workspace.take(0, shape.both)
    assert engine.shape("cpu=4").fit_error(engine.workspace).held_agent is None
    engine.workspace.mark_held(0, shape.both)
    engine.workspace.holders[0] = "gang"
    error = engine.shape("cpu=4").fit_error(engine.workspace)
    assert (error.kernels_fit, error.held_agent, error.holder) == (0, "a1", "gang")


def test_seats_that_are_kept_are_those_that_are_counted_again() -> None:
    engine = EngineParts(*(agent(f"a{i}", "cpu=4", used="cpu=1") for i in range(12)))
    shape, space = engine.shape("cpu=2"), engine.workspace
    assert shape.future_seats(space).tolist() == [1] * 12
    for agents in ((2,), range(12)):
        for one in agents:
            space.free_soon(one, shape.released)
        assert shape.future_seats(space).tolist() == shape.future_counts(space).tolist()
    assert shape.future_seats(space)[2] == 3


def verdict_of(given: SystemSnapshot) -> Verdict:
    return planned(given).trace[SessionId("s")]


def code_and_summary(verdict: Verdict) -> tuple[str, str]:
    return verdict.code, verdict.summary


@pytest.mark.parametrize(
    ("runtime", "asked", "kind"),
    [
        ("process", {"image": "python:3.12"}, "containers"),
        ("docker", {"image": "host"}, "processes (image host or venv:NAME)"),
        ("fake", {"image": "torch", "serves": True}, "containers that serve requests; fake agents cannot"),
    ],
)
def test_a_runtime_that_no_agent_has_is_named(runtime: str, asked: dict[str, Any], kind: str) -> None:
    machines = [agent(name, "cpu=1", labels={RUNTIME_LABEL: runtime}) for name in ("a", "b")]
    verdict = verdict_of(snapshot(machines, session("s", kernel("k", "cpu=1", **asked))))
    assert code_and_summary(verdict) == ("NO_RUNTIME_MATCH", f"none of 2 agents can run {kind}")
    assert verdict.advice is Advice.CHANGE


def test_labels_are_compared_among_agents_of_the_runtime_only() -> None:
    machines = [
        agent("a", "cpu=1", labels={RUNTIME_LABEL: "docker"}),
        agent("b", "cpu=1", labels={RUNTIME_LABEL: "process", "zone": "east"}),
    ]
    wanted = kernel("k", "cpu=1", image="torch", require={"zone": "east"})
    verdict = planned(snapshot(machines, session("s", wanted))).trace[SessionId("s")]
    assert code_and_summary(verdict) == ("NO_LABEL_MATCH", "none of 1 agents has the labels zone=east")
    assert verdict.funnel is not None
    assert verdict.funnel.sentence().endswith("(1 of another runtime)")


def test_the_largest_candidate_is_one_that_could_run_the_kernel() -> None:
    machines = [
        agent("a", "cpu=4", labels={RUNTIME_LABEL: "process", "zone": "east"}),
        agent("b", "cpu=64", labels={RUNTIME_LABEL: "fake"}),
        agent("c", "cpu=64", architecture="riscv64"),
        agent("d", "cpu=64", labels={"zone": "west"}),
    ]
    wanted = kernel("k", "cpu=8", image="host", serves=True, require={"zone": "east"})
    verdict = planned(snapshot(machines, session("s", wanted))).trace[SessionId("s")]
    text = "no agent could ever hold cpu=8; the largest candidate a lacks cpu=4"
    assert code_and_summary(verdict) == ("NEVER_FITS", text)
