"""Converts session requests from the wire to the domain."""

from __future__ import annotations

import doctest
from dataclasses import fields
from typing import Any

import pytest

from sokovan.api.mapping import requests
from sokovan.api.mapping.requests import CONVERTED, read_topology, session_request, topology_text
from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.problems import InvalidRequest
from sokovan.domain.session import (
    EndPolicy,
    LostPolicy,
    Mount,
    Partition,
    ServicePort,
    ServiceProtocol,
    SessionType,
    TopologyConstraint,
    TopologyMode,
)
from sokovan.domain.session_request import KernelGroupRequest, SessionRequest
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, PartitionBody, RetryBody, ServicePortBody, SessionBody


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(requests).failed == 0


def test_every_field_of_a_body_is_converted_or_a_field_of_the_request() -> None:
    body_fields = {one.name for one in fields(SessionBody)}
    assert body_fields >= CONVERTED
    assert body_fields - CONVERTED <= {one.name for one in fields(SessionRequest)}


def test_an_empty_body_requests_the_defaults() -> None:
    assert session_request(SessionBody()) == SessionRequest()
    group = session_request(SessionBody(groups=[KernelGroupBody(name="w")])).groups[0]
    assert group == KernelGroupRequest(name="w")


def test_everything_that_is_said_arrives() -> None:
    body = SessionBody(
        name="train",
        type="batch",
        image="venv:torch",
        command=["python", "a.py"],
        environment={"A": "1"},
        resources={"cpu": 2, "mem": "4Gi"},
        size=4,
        minimum=2,
        mounts=[MountBody(source="/data", target="/in", read_only=False)],
        ports=[ServicePortBody(name="web", port=8080, protocol="tcp")],
        labels={"l": "1"},
        require={"zone": "a"},
        architecture="aarch64",
        scaling_group="gpu",
        queue="fast",
        group="lab",
        priority=7,
        topology="hard:rack",
        depends_on=["first"],
        starts_at="2030-01-31T18:00:00Z",
        time_limit="2h",
        preemptible=False,
        stop_grace="1m",
        ends_with="main",
        tolerates_failures=True,
        on_agent_lost="requeue",
        on_preempt="end",
    )
    request = session_request(body)
    assert (request.name, request.image, request.command) == ("train", "venv:torch", ("python", "a.py"))
    assert (request.size, request.minimum, request.priority) == (4, 2, 7)
    assert request.mounts == (Mount("/data", "/in", read_only=False),)
    assert request.ports == (ServicePort("web", 8080, ServiceProtocol.TCP),)
    assert (request.scaling_group, request.queue, request.group, request.architecture) == (
        "gpu",
        "fast",
        "lab",
        "aarch64",
    )
    assert (request.time_limit_s, request.stop_grace_s, request.starts_at_ms) == (7200, 60, 1_896_112_800_000)
    assert (request.session_type, request.ends_with, request.on_agent_lost) == (
        SessionType.BATCH,
        EndPolicy.MAIN,
        LostPolicy.REQUEUE,
    )
    assert request.topology == TopologyConstraint(TopologyMode.HARD, "rack")
    assert (request.environment, request.labels, request.require) == ({"A": "1"}, {"l": "1"}, {"zone": "a"})
    assert (request.depends_on, request.preemptible, request.tolerates_failures) == (("first",), False, True)
    assert request.resources == {"cpu": 2, "mem": "4Gi"}


def test_a_group_says_what_differs_and_leaves_the_rest() -> None:
    given = {"name": "ps", "size": 2, "minimum": 1, "image": "host", "resources": {"cpu": 1}}
    more: dict[str, Any] = {**given, "priority": 3, "nominated": "a1"}
    group = KernelGroupBody(command=["x"], **more)
    assert session_request(SessionBody(groups=[group])).groups == (KernelGroupRequest(command=("x",), **more),)


def test_a_partition_has_a_closeness_of_its_own_and_errors_name_its_place() -> None:
    part = PartitionBody(name="replicas", by="replica", size=4, min_groups=2, topology="hard:rack")
    hard = TopologyConstraint(TopologyMode.HARD, "rack")
    assert session_request(SessionBody(partitions=[part])).partitions == (Partition("replicas", "replica", 4, 2, hard),)
    with pytest.raises(InvalidRequest) as raised:
        session_request(SessionBody(partitions=[part, PartitionBody(name="p", by="l", topology="firm")]))
    assert raised.value.problems[0].where == "partitions/1/topology"


def test_no_field_of_the_wire_is_left_behind() -> None:
    # A new field of the body must be carried over.
    renamed = {"type": "session_type", "starts_at": "starts_at_ms", "deadline": "deadline_ms"}
    renamed |= {one: f"{one}_s" for one in ("time_limit", "idle_timeout", "stop_grace", "checkpoint")}
    wanted = {renamed.get(one.name, one.name) for one in fields(SessionBody)}
    # The place in a deployment is set by its coordinator only.
    assert wanted == {one.name for one in fields(SessionRequest)} - {"replica"}


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("soft", TopologyConstraint(TopologyMode.SOFT)),
        ("hard:rack", TopologyConstraint(TopologyMode.HARD, "rack")),
        ("soft:2", TopologyConstraint(TopologyMode.SOFT, 2)),
    ],
)
def test_closeness_is_read_and_written_back(text: str, constraint: TopologyConstraint) -> None:
    assert read_topology(text) == constraint
    assert topology_text(constraint) == text


@pytest.mark.parametrize("text", ["", "near", "hard:", "hard:0", "HARD", "hard: rack", "hard:\x00", ":rack"])
def test_closeness_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_topology(text)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"name": ""}, "name"),
        ({"queue": ""}, "queue"),
        ({"time_limit": 0}, "time_limit"),
        ({"idle_timeout": 0}, "idle_timeout"),
        ({"idle_timeout": -1}, "idle_timeout"),
        ({"idle_timeout": "later"}, "idle_timeout"),
        ({"time_limit": "soon"}, "time_limit"),
        ({"starts_at": "soon"}, "starts_at"),
        ({"stop_grace": -1}, "stop_grace"),
        ({"topology": "near"}, "topology"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_by_its_field(said: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        session_request(SessionBody(**said))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"mounts": [MountBody(source="/a", target="/b"), MountBody(source="/../c", target="/x")]}, "mounts/1/source"),
        ({"mounts": [MountBody(source="/a", target="x")]}, "mounts/0/target"),
        ({"ports": [ServicePortBody(name="web", port=80)]}, "ports/0/port"),
    ],
)
def test_a_problem_in_a_part_is_located_by_its_path(said: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        session_request(SessionBody(**said))
    assert [one.where for one in refused.value.problems] == [where]


def test_a_retry_policy_is_read_with_its_bounds() -> None:
    request = session_request(SessionBody(retry=RetryBody(attempts=5, backoff="1m", elsewhere=False)))
    assert request.retry == RetryPolicy(attempts=5, backoff_s=60, elsewhere=False)
    assert session_request(SessionBody()).retry == RetryPolicy(attempts=3, backoff_s=5, elsewhere=True)
    with pytest.raises(InvalidRequest, match="retry/attempts"):
        session_request(SessionBody(retry=RetryBody(attempts=11)))
