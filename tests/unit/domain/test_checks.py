"""The checks that specs share name the field and quote the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sokovan.domain.checks import (
    INT64_MAX,
    LABEL_TEXT_MAX,
    LABELS_MAX,
    require_int,
    require_kind,
    require_labels,
    require_limits,
    require_slots,
    require_tuple,
)
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.health import Health
from sokovan.domain.slots import AMOUNT_MAX, NO_LIMITS, NO_SLOTS, ResourceSlot, SlotLimits

HERE: dict[str, Any] = {"what": "session s1", "field": "size"}


def refusal(check: Callable[[], object]) -> str:
    with pytest.raises(InvalidSpec) as refused:
        check()
    return refused.value.message


def test_a_whole_number_within_its_bounds_is_handed_back() -> None:
    assert require_int(0, **HERE, least=0, most=0) == 0
    assert require_int(INT64_MAX, **HERE) == 2**63 - 1
    assert require_int(-INT64_MAX, **HERE) == -INT64_MAX


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "session s1: size = 0: must be 1 or more"),
        (10, "session s1: size = 10: must be 9 or less"),
        (2.0, "session s1: size = 2.0: must be a whole number"),
        ("2", "session s1: size = '2': must be a whole number"),
        (True, "session s1: size = True: must be a whole number"),
        (None, "session s1: size = None: must be a whole number"),
    ],
)
def test_a_number_that_does_not_do_is_refused(value: Any, message: str) -> None:
    assert refusal(lambda: require_int(value, **HERE, least=1, most=9)) == message


@pytest.mark.parametrize("value", [INT64_MAX + 1, -INT64_MAX - 1])
def test_a_number_without_bounds_still_has_to_fit_a_column(value: int) -> None:
    assert "size" in refusal(lambda: require_int(value, **HERE))


def test_a_value_of_its_kind_is_handed_back() -> None:
    assert require_kind(Health.HEALTHY, Health, **HERE) is Health.HEALTHY


def test_a_text_that_looks_like_a_status_is_answered_with_those_there_are() -> None:
    problem = "must be one of unknown, healthy, unhealthy"
    assert refusal(lambda: require_kind("healthy", Health, **HERE)) == f"session s1: size = 'healthy': {problem}"


def test_a_value_of_another_type_is_rejected_with_the_type() -> None:
    assert refusal(lambda: require_kind("no", bool, **HERE)) == "session s1: size = 'no': must be of type bool"


def test_a_tuple_of_one_type_may_be_empty() -> None:
    require_tuple((), str, **HERE)
    require_tuple(("a", "b"), str, **HERE)


@pytest.mark.parametrize("wrong", ["ab", ["a"], ("a", 1), None])
def test_a_single_text_is_not_taken_for_a_tuple_of_letters(wrong: Any) -> None:
    assert "must be a tuple of type str" in refusal(lambda: require_tuple(wrong, str, **HERE))


def test_labels_are_few_short_printable_texts() -> None:
    require_labels({}, what="agent a1")
    require_labels({"zone": "west 1", "": ""}, what="agent a1")
    require_labels({str(number): "x" * LABEL_TEXT_MAX for number in range(LABELS_MAX)}, what="agent a1")


@pytest.mark.parametrize(
    "labels",
    [
        None,
        ["zone"],
        {str(number): "" for number in range(LABELS_MAX + 1)},
        {"zone": 1},
        {1: "zone"},
        {"zone": "x" * (LABEL_TEXT_MAX + 1)},
        {"zone": "a\nb"},
    ],
)
def test_other_labels_are_refused(labels: Any) -> None:
    assert refusal(lambda: require_labels(labels, what="agent a1", field="require")).startswith("agent a1: require = ")


def test_slots_are_resource_slots_that_fit_a_column() -> None:
    require_slots(NO_SLOTS, what="kernel k1")
    require_slots(ResourceSlot({"mem": AMOUNT_MAX}), what="kernel k1")
    assert "must be a ResourceSlot" in refusal(lambda: require_slots({"cpu": 1}, what="kernel k1"))
    too_much = ResourceSlot({"mem": AMOUNT_MAX + 1})
    assert f"is more than {AMOUNT_MAX}" in refusal(lambda: require_slots(too_much, what="kernel k1"))


def test_limits_are_slot_limits_that_fit_a_column() -> None:
    require_limits(NO_LIMITS, **HERE)
    require_limits(SlotLimits({"mem": AMOUNT_MAX, "cpu": 0}), **HERE)
    assert "must be of type SlotLimits" in refusal(lambda: require_limits(NO_SLOTS, **HERE))
    assert f"is more than {AMOUNT_MAX}" in refusal(lambda: require_limits(SlotLimits({"mem": AMOUNT_MAX + 1}), **HERE))
