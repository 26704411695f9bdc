"""Reading what clients send."""

from __future__ import annotations

import json

import pytest

from sokovan.api.access.request_limits import LIST_MAX
from sokovan.api.request_bodies import PROBLEMS_MAX, field_problems, parsed
from sokovan.domain.problems import InvalidRequest
from sokovan.wire.api.sessions import KernelGroupBody, SessionBody


def refused(text: bytes) -> dict[str, str]:
    """The problems of a body, by place."""
    with pytest.raises(InvalidRequest) as error:
        parsed(text, SessionBody)
    return dict(error.value.problems)


def test_a_body_is_read_into_its_type() -> None:
    text = b'{"size": 2, "resources": {"cpu": 0.5, "mem": "4Gi"}, "groups": [{"name": "w"}]}'
    body = parsed(text, SessionBody)
    assert body == SessionBody(size=2, resources={"cpu": 0.5, "mem": "4Gi"}, groups=[KernelGroupBody(name="w")])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"size": "2"}', "size"),
        (b'{"size": 2.0}', "size"),
        (b'{"size": true}', "size"),
        (b'{"preemptible": "yes"}', "preemptible"),
        (b'{"preemptible": 1}', "preemptible"),
        (b'{"name": 5}', "name"),
        (b'{"command": "true"}', "command"),
        (b'{"command": ["a", 1]}', "command/1"),
        (b'{"type": "daemon"}', "type"),
        (b'{"sise": 1}', "sise"),
        (b'{"groups": [{"size": 1}]}', "groups/0/name"),
        (b'{"groups": [{"name": "a", "x": 1}]}', "groups/0/x"),
        (b'{"environment": {"A": 1}}', "environment/A"),
        (b'{"resources": {"cpu": null}}', "resources/cpu"),
        (b'{"resources": {"cpu": [1]}}', "resources/cpu"),
        (b'{"mounts": [{"source": "/a"}]}', "mounts/0/target"),
        (b'{"time_limit": 1.5}', "time_limit"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"", "body"),
        (b"{", "body"),
        (b'{"name": "\xff"}', "body"),
        (b'{"name": "\\ud800"}', "body"),
        (b'{"size": NaN}', "size"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(text: bytes, place: str) -> None:
    assert place in refused(text)


def test_nothing_is_turned_into_what_it_is_not() -> None:
    assert "valid integer" in refused(b'{"size": "2"}')["size"]


def test_a_place_that_may_hold_several_types_is_named_once() -> None:
    assert list(refused(b'{"resources": {"cpu": [1]}}')) == ["resources/cpu"]


def test_every_problem_is_reported_at_once_up_to_a_limit() -> None:
    assert set(refused(b'{"size": "2", "priority": "high", "x": 1}')) == {"size", "priority", "x"}
    many = json.dumps({f"key{number}": 1 for number in range(500)}).encode()
    assert len(refused(many)) == PROBLEMS_MAX


@pytest.mark.parametrize(
    "body",
    [
        {"command": ["x"] * (LIST_MAX + 1)},
        {"environment": {f"A{number}": "" for number in range(LIST_MAX + 1)}},
        {"groups": [{"name": "a", "command": ["x"] * (LIST_MAX + 1)}]},
    ],
)
def test_lists_have_a_limit(body: object) -> None:
    place, problem = next(iter(refused(json.dumps(body).encode()).items()))
    assert place in {"command", "environment", "groups/0/command"}
    assert str(LIST_MAX) in problem


def test_the_shortest_text_of_a_long_list_is_refused() -> None:
    for entries in (LIST_MAX, LIST_MAX + 1):
        text = b"[" + b",".join([b"1"] * entries) + b"]"
        if entries == LIST_MAX:
            assert parsed(text, list) == [1] * entries
        else:
            with pytest.raises(InvalidRequest):
                parsed(text, list)


def test_problems_of_parameters_are_named_by_where_they_were_given() -> None:
    found = [{"loc": ("query", "limit"), "msg": "Input should be less"}, {"loc": (), "msg": "Broken"}]
    assert field_problems(found) == [("query/limit", "input should be less"), ("body", "broken")]
