"""Session labels and the selectors of listings."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.constraints.labels import (
    NAME_MAX,
    SESSION_LABELS_MAX,
    VALUE_MAX,
    LabelSelector,
    read_selectors,
    require_session_labels,
)
from sokovan.domain.errors import InvalidSpec

WHAT = "session s1"


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"team": "vision"},
        {"example.com/run-id": "2030-01-31T18:00:00+02:00"},
        {"nightly": ""},
        {"a" * NAME_MAX: "v" * VALUE_MAX},
        {str(number): "x" for number in range(SESSION_LABELS_MAX)},
    ],
)
def test_labels_within_the_bounds_are_valid(labels: dict[str, str]) -> None:
    require_session_labels(labels, what=WHAT)


@pytest.mark.parametrize(
    ("labels", "field", "problem"),
    [
        ({"": "x"}, "labels", "1 to 63 letters"),
        ({"-team": "x"}, "labels", "begin and end with"),
        ({"team.": "x"}, "labels", "begin and end with"),
        ({"te am": "x"}, "labels", "letters, digits"),
        ({"té": "x"}, "labels", "letters, digits"),
        ({'a"b': "x"}, "labels", "letters, digits"),
        ({"a" * (NAME_MAX + 1): "x"}, "labels", "1 to 63"),
        ({"team": "a b"}, "labels.team", "at most 128"),
        ({"team": "a,b"}, "labels.team", "at most 128"),
        ({"team": "v" * (VALUE_MAX + 1)}, "labels.team", "at most 128"),
        ({"team": 1}, "labels.team", "at most 128"),
        ({str(number): "x" for number in range(SESSION_LABELS_MAX + 1)}, "labels", "at most 32 labels"),
        (["team"], "labels", "must be a mapping"),
    ],
)
def test_other_labels_are_rejected_with_the_rule(labels: Any, field: str, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem) as rejected:
        require_session_labels(labels, what=WHAT)
    assert rejected.value.field == field


def test_a_selector_is_a_value_or_any_value() -> None:
    assert read_selectors(["team=vision", "nightly", "empty="]) == (
        LabelSelector("team", "vision"),
        LabelSelector("nightly"),
        LabelSelector("empty", ""),
    )
    assert read_selectors(["a=1,b"]) == read_selectors(["a=1", "b"])
    assert read_selectors([]) == ()


@pytest.mark.parametrize("text", ["", "=x", "a=b c", "a,", "a=1=2", "a b"])
def test_an_invalid_selector_is_rejected(text: str) -> None:
    with pytest.raises(InvalidSpec, match="listing: label"):
        read_selectors([text])


def test_a_listing_has_a_bounded_number_of_selectors() -> None:
    with pytest.raises(InvalidSpec, match="more than 32 labels"):
        read_selectors(["a"] * (SESSION_LABELS_MAX + 1))
