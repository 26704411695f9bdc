"""Sessions as tables and facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.cli.commands.sessions.session_tables import (
    check_table,
    funnel_line,
    health,
    history_columns,
    kernel_rows,
    note,
    placed,
    session_columns,
    session_fields,
    victim_lines,
)
from sokovan.wire.api.evictions import EvictionView
from sokovan.wire.api.explanations import CheckView, VictimView
from sokovan.wire.api.sessions import HistoryLine, PartitionBody, SessionView
from tests.unit.sdk.views import KERNEL, ended, pending, session

NOW = 1_893_456_120.0  # two minutes after the submission


def row(view: SessionView) -> dict[str, str]:
    """A session's cells by the names of their columns."""
    return {column.name: column.cell(view) for column in session_columns(now_s=NOW)}


def test_a_running_session_has_agents_and_an_age() -> None:
    cells = row(session(size=1))
    assert [cells[name] for name in ("name", "state", "health", "queue", "kernels", "gpu", "where", "age", "note")] == [
        "ddp", "RUNNING", "ok", "research", "1/1", "32", "a1", "2m", "",
    ]  # fmt: skip


def test_a_waiting_session_says_why() -> None:
    cells = row(pending(reason="TOPOLOGY_NO_ROOM", size=4))
    assert (cells["health"], cells["kernels"], cells["where"], cells["note"]) == (
        "wait",
        "0/4",
        "-",
        "TOPOLOGY_NO_ROOM",
    )


@pytest.mark.parametrize(
    ("view", "word"),
    [
        (ended(), "ok"),
        (ended(exit_code=1), "failed"),
        (pending(status="cancelled"), "-"),
        (session(status="terminating"), "ending"),
        (session(status="pulling"), "start"),
    ],
)
def test_health_is_one_term(view: SessionView, word: str) -> None:
    assert health(view) == word


def test_many_agents_are_counted_under_their_hypernode() -> None:
    kernels = [replace(KERNEL, agent=f"r03n{index}") for index in range(4)]
    assert placed(session(kernels=kernels, hypernode="r03")) == "r03 (4 agents)"
    assert placed(session(kernels=kernels)) == "4 agents"
    assert placed(session(kernels=kernels[:2])) == "r03n0, r03n1"


def test_the_devices_of_kernels_are_named_up_to_a_number() -> None:
    kernels = [
        replace(KERNEL, index=index, devices={"cuda.device": [f"GPU-{index}{number}" for number in range(9)]})
        for index in range(2)
    ]
    shown = dict(session_fields(session(kernels=kernels[:1]), now_s=NOW))["devices"]
    assert shown == f"kernel 0: {', '.join(f'GPU-0{number}' for number in range(9))}"
    assert dict(session_fields(session(kernels=kernels), now_s=NOW))["devices"].endswith("GPU-15, GPU-16; 2 more")
    without = session(kernels=[replace(KERNEL, devices={})])
    assert "devices" not in dict(session_fields(without, now_s=NOW))


def test_the_note_of_a_pull_is_how_far_it_is() -> None:
    message = "venv:tiny: Collecting numpy"
    assert note(ended(status="pulling", reason="pulling", reason_detail=message)) == message
    assert note(ended(status="pending", reason="NO_NODES", reason_detail="there are none")) == "NO_NODES"
    assert note(ended(status="running", reason=None)) == ""


def test_empty_fields_are_left_out() -> None:
    facts = dict(session_fields(ended(exit_code=3, reason="kernel-failed", reason_detail="exit 3"), now_s=NOW))
    assert facts["exit code"] == "3"
    assert facts["reason"] == "kernel-failed exit 3"
    assert facts["submitted"] == "2m ago"
    assert "topology" not in facts
    assert dict(session_fields(session(minimum=2, size=4), utc=True))["kernels"] == "4, can start with 2"


EVICTION = EvictionView(
    number=1, action="preempt", at="2026-01-01T00:00:00.000Z", for_session="", kernels=2, whole=False, lost_slot_s=40,
    reported=False, ends_by="2026-01-01T00:00:10.000Z", ended_at="2026-01-01T00:00:05.000Z",
)  # fmt: skip


def test_options_of_a_request_are_shown_where_they_differ_from_the_default() -> None:
    facts = dict(
        session_fields(
            session(
                environment=["A", "KEY"], mounts=["/data:/data:ro"], require={"zone": "a"}, where=["nvme exists"],
                architecture="aarch64", stop_grace_s=90, size=2, ends_with="main", tolerates_failures=True,
                on_agent_lost="requeue", type="batch", on_preempt="end", evictions=[EVICTION],
            ),
            now_s=NOW,
        )
    )  # fmt: skip
    assert (facts["variables"], facts["mounts"]) == ("A, KEY", "/data:/data:ro")
    assert (facts["agent labels"], facts["architecture"]) == ("zone=a, nvme exists", "aarch64")
    assert (facts["stop grace"], facts["ends with"]) == ("1m 30s", "main, tolerates failures")
    assert facts["if agent lost"] == "requeue"
    assert facts["preemption"] == "after an eviction: end"
    assert facts["eviction 1"].startswith("preempt ")
    assert facts["eviction 1"].endswith(
        ", for a session of another user: 2 kernels; 40 slot seconds since its start (no checkpoint was reported): lost"
    )
    assert not {"stop grace", "if agent lost", "mounts"} & dict(session_fields(session(), now_s=NOW)).keys()


def test_a_pending_session_shows_when_it_times_out() -> None:
    facts = dict(session_fields(session(times_out_at="2030-01-01T00:00:00Z"), now_s=NOW))
    assert facts["times out"] == "at 2030-01-01T00:00:00Z, unless it starts before"
    assert "times out" not in dict(session_fields(session(), now_s=NOW))


def test_labels_are_shown_as_they_are_given() -> None:
    labelled = session(labels={"team": "vision", "nightly": ""})
    assert dict(session_fields(labelled, now_s=NOW))["labels"] == row(labelled)["labels"] == "team=vision, nightly="
    assert "labels" not in dict(session_fields(session(), now_s=NOW))


def test_kernels_and_moves_are_rows() -> None:
    assert kernel_rows([replace(KERNEL, rank=3, ports={"web": 30001})]) == [
        ("0", "3", "main", "RUNNING", "a1", "-", "cpu 1, mem 1GiB", "web=30001")
    ]
    line = HistoryLine(
        subject="s-1",
        sequence=2,
        before="pending",
        after="scheduled",
        trigger="allocated",
        who="scheduler",
        code="placed",
        detail="on a1",
        at="2030-01-01T00:00:00.000Z",
        last_at="2030-01-01T00:00:00.000Z",
        times=3,
    )
    cells = {column.name: column.cell(line) for column in history_columns(now_s=NOW)}
    assert (cells["state"], cells["times"], cells["age"]) == ("PENDING → SCHEDULED", "3", "2m")
    still = {column.name: column.cell(replace(line, before="scheduled", times=1)) for column in history_columns()}
    assert (still["state"], still["times"]) == ("SCHEDULED", "")


def test_a_history_names_kernels_by_rank_with_agent_and_exit_code() -> None:
    first = HistoryLine(
        subject="k-1", sequence=1, before="pending", after="scheduled", trigger="t", who="scheduler", code="allocated",
        detail="", at="2030-01-01T00:00:00.000Z", last_at="2030-01-01T00:00:00.000Z", times=1,
    )  # fmt: skip
    again = replace(first, sequence=4)
    last = replace(first, sequence=9, before="terminating", after="terminated", detail="over")
    lines = [first, again, last, replace(first, subject="s-1", sequence=2)]
    by_name = {column.name: column for column in history_columns(lines, [replace(KERNEL, exit_code=3)])}
    assert [by_name["subject"].cell(line) for line in lines] == ["kernel 0", "kernel 0", "kernel 0", "session"]
    # The agent before it was requeued is no longer recorded.
    assert [by_name["detail"].cell(line) for line in lines] == ["", "on a1", "exit 3; over", ""]


def test_checks_and_funnels_stand_below_a_sentence() -> None:
    lines = check_table([CheckView(name="room", result="short", detail="gpu 1 of 2")])
    assert [line.split() for line in lines] == [["CHECK", "RESULT", "DETAIL"], ["room", "short", "gpu", "1", "of", "2"]]
    assert all(line.startswith("  ") for line in lines)
    assert funnel_line({"agents": 4, "fits_now": 0}) == "  agents: agents 4 → fits now 0"


def test_the_hypernodes_of_a_session_and_of_its_kernel_groups_are_shown() -> None:
    facts = dict(session_fields(session(hypernode="z1", group_domains={"stages/0": "z1/r1"}), now_s=NOW))
    assert (facts["HyperNode"], facts["group stages/0"]) == ("z1", "in z1/r1")


def test_kernel_groups_are_shown_with_their_minimums_and_closeness() -> None:
    part = PartitionBody(name="replicas", by="replica", size=4, min_groups=2, topology="hard:rack")
    view = session(partitions=[part], group_minimums={"worker": 4}, preemptible=False, preemption="never")
    facts = dict(session_fields(view, now_s=NOW))
    assert facts["partition replicas"] == "by replica, parts of 4, at least 2 of them, each hard:rack"
    assert facts["group minimums"] == "worker=4"
    assert facts["preemption"] == "others may not preempt it; it may not preempt others"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"for_session": "s-1", "for_name": "urgent"}, "for urgent: 2 kernels; 40 slot seconds since its start (no"),
        ({"for_session": "s-1"}, "for s-1: 2 kernels"),
        ({"saves_every_s": 300}, "40 slot seconds since its last save (it saves every 5m): lost"),
        ({"completed": True, "lost_slot_s": 0}, "it had ended by itself before, nothing was lost"),
    ],
)
def test_a_receipt_names_the_taker_and_says_since_when_work_was_lost(changes: dict[str, Any], text: str) -> None:
    facts = dict(session_fields(session(evictions=[replace(EVICTION, **changes)]), now_s=NOW))
    assert text in facts["eviction 1"]


def test_a_session_that_was_evicted_is_marked_until_it_ends() -> None:
    receipt = EvictionView(
        number=3, action="preempt", at="2026-01-01T00:00:00Z", for_session="", kernels=1, whole=True,
        lost_slot_s=5, reported=True, ends_by="2026-01-01T00:00:10Z", step=7,
    )  # fmt: skip
    evicted = replace(pending(), evictions=[receipt], reason="BACKING_OFF")
    assert note(evicted) == "evicted 3 times, BACKING_OFF"
    assert note(replace(evicted, evictions=[replace(receipt, number=1)], reason=None)) == "evicted"
    assert note(ended(evictions=[receipt], status="terminated", reason=None)) == ""


def test_a_session_on_loan_is_marked_until_it_ends() -> None:
    assert note(replace(pending(), loan="research", reason=None)) == "on loan from research"
    assert note(replace(pending(), loan="research", reason="BACKING_OFF")) == "on loan from research, BACKING_OFF"
    assert note(ended(loan="research", status="terminated", reason=None)) == ""


def test_victims_are_listed_up_to_a_limit_and_those_of_others_are_not_named() -> None:
    victim = VictimView(session="s1", action="preempt", kernels=2, whole=True, lost_slot_s=60)
    lines = victim_lines([victim, replace(victim, session="", whole=False)])
    assert [line.split() for line in lines[2:]] == [
        ["s1", "preempt", "all", "2", "60"],
        ["of", "another", "user", "preempt", "2", "60"],
    ]
    assert victim_lines([victim] * 20)[-1] == "  ... and 4 more"
    assert victim_lines([]) == []
