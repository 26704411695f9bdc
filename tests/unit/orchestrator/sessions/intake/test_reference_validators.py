"""Names in a request that lead nowhere. The table of bad ones is in test_validation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState
from sokovan.domain.ids import QueueName, SessionId
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.owners.tenancy import Role
from sokovan.domain.records import SessionResult, SessionSummary, SpecSummary
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.reference_validators import (
    bookings,
    dependencies,
    has_failed,
    isolation,
    names,
    queue_of,
    queues,
)
from sokovan.testing.stored_cluster import session_spec
from tests.unit.orchestrator.sessions.intake.request_builders import query_for


def queue(name: str, **options: object) -> Queue:
    return Queue(QueueName(name), **options)  # type: ignore[arg-type]  # options of a queue


def ended(status: SessionStatus, result: SessionResult | None) -> SessionSummary:
    spec = SpecSummary.of(session_spec("s1"))
    return SessionSummary(SessionId("s1"), spec, status, 1, Goal.RUN, 0, (), result=result)


@pytest.mark.parametrize(
    ("role", "group", "refused"),
    [
        (Role.USER, "", 1),
        (Role.USER, "open", 1),
        (Role.USER, "closed", 0),
        (Role.DOMAIN_ADMIN, "", 1),
        (Role.ADMIN, "", 0),
    ],
)
def test_only_administrators_submit_where_kernels_are_not_isolated(role: Role, group: str, refused: int) -> None:
    query = query_for({"pools": {"open": Pool("x86_64", open=True), "closed": Pool("x86_64")}}, scaling_group=group)
    found = list(isolation(replace(query, caller=replace(query.caller, role=role))))

    assert len(found) == refused
    assert all("has no sandbox" in one.problem and one.where == "scaling_group" for one in found)


def test_without_any_queues_work_goes_to_default() -> None:
    assert queue_of(query_for()) == "default"
    assert list(queues(query_for())) == []


def test_the_only_open_queue_is_taken_where_there_is_no_default() -> None:
    facts = {"queues": (queue("a", state=QueueState.CLOSED), queue("b"))}

    assert queue_of(query_for(facts)) == "b"
    assert list(queues(query_for(facts))) == []


def test_among_several_queues_without_a_default_one_must_be_chosen() -> None:
    (problem,) = queues(query_for({"queues": (queue("a"), queue("b"))}))

    assert (problem.where, problem.problem) == ("queue", "choose a queue; available: a, b")


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ((queue("q", state=QueueState.CLOSED),), "is closed"),
        ((queue("q"), queue("below", parent=QueueName("q"))), "has child queues"),
        (
            (queue("q", parent=QueueName("up")), queue("up", state=QueueState.CLOSED)),
            "queue up, a parent of q,",
        ),
    ],
)
def test_a_queue_that_takes_no_work_says_why(listed: tuple[Queue, ...], said: str) -> None:
    (problem,) = queues(query_for({"queues": listed, "queue": listed[0]}, queue="q"))

    assert said in problem.problem


def test_nothing_is_submitted_to_the_root_of_all_queues() -> None:
    facts = {"queues": (queue(ROOT_QUEUE), queue("leaf"))}

    assert [problem.where for problem in queues(query_for(facts, queue=ROOT_QUEUE))] == ["queue"]


@pytest.mark.parametrize("name", ["a", "train-7", "A.b_c-D", "x" * 64, "s-1", "s-train"])
def test_names_that_people_give(name: str) -> None:
    assert list(names(query_for(name=name))) == []


@pytest.mark.parametrize(
    ("status", "result", "failed"),
    [
        (SessionStatus.TERMINATED, SessionResult.FAILURE, True),
        (SessionStatus.TERMINATED, SessionResult.SUCCESS, False),
        (SessionStatus.CANCELLED, SessionResult.FAILURE, True),
        (SessionStatus.CANCELLED, None, True),
        (SessionStatus.RUNNING, None, False),
        (SessionStatus.TERMINATING, SessionResult.FAILURE, False),
    ],
)
def test_only_what_ended_well_or_may_still_end_well_can_be_built_on(
    status: SessionStatus,
    result: SessionResult | None,
    failed: bool,
) -> None:
    assert has_failed(ended(status, result)) is failed


def test_a_dependency_that_failed_is_reported_with_its_cause() -> None:
    record = replace(ended(SessionStatus.TERMINATED, SessionResult.FAILURE), cause="out-of-memory")

    (problem,) = dependencies(query_for({"dependencies": {"train": (record,)}}, depends_on=("train",)))

    assert problem.problem == "'train' has failed (out-of-memory), so this session would never start"


@pytest.mark.parametrize(
    ("booking", "text"),
    [
        (None, "there is no booking"),
        (Booking("b", 0, 5, agents=("a",), queues=("default",)), "has ended"),
        (Booking("b", 0, 50, agents=("a",), queues=("other",)), "does not permit"),
        (Booking("b", 0, 50, agents=("a",), queues=("default",)), ""),
    ],
)
def test_a_booking_is_there_has_not_ended_and_permits_the_owner(booking: Booking | None, text: str) -> None:
    found = list(bookings(query_for({"booking": booking, "now_ms": 10}, booking="b")))
    assert [text in one.problem and one.where == "booking" for one in found] == ([True] if text else [])
    assert list(bookings(query_for({"booking": booking}))) == []
