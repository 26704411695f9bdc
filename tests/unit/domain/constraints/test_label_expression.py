"""LabelExpression: reading, writing and evaluating conditions on labels."""

from __future__ import annotations

import pytest

from sokovan.domain.constraints.label_expression import VALUES_MAX, LabelExpression, LabelOperator, read_expression
from sokovan.domain.errors import InvalidSpec


@pytest.mark.parametrize(
    ("text", "labels", "holds"),
    [
        ("zone in (a, b)", {"zone": "b"}, True),
        ("zone in (a,b)", {"zone": "c"}, False),
        ("zone in (a)", {}, False),
        ("zone not in (a)", {"zone": "b"}, True),
        ("zone not in (a)", {"zone": "a"}, False),
        ("zone not in (a)", {}, True),
        ("nvme exists", {"nvme": ""}, True),
        ("nvme exists", {}, False),
        ("nvme not exists", {}, True),
        ("nvme not exists", {"nvme": "1"}, False),
    ],
)
def test_a_condition_holds_for_the_labels_it_describes(text: str, labels: dict[str, str], *, holds: bool) -> None:
    assert read_expression(text).holds(labels) is holds


@pytest.mark.parametrize(
    "text", ["", "zone", "zone in", "zone in ()", "zone in (a", "zone is a", "in (a)", "zo ne in (a)", "zone in (a;b)"]
)
def test_a_text_that_is_no_condition_is_refused_with_the_notation(text: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        read_expression(text)
    assert "not in" in refused.value.hint


def test_a_condition_reads_back_what_it_writes() -> None:
    expression = LabelExpression("zone", LabelOperator.NOT_IN, ("a", "b"))
    assert read_expression(str(expression)) == expression


def test_values_are_kept_once_and_bounded() -> None:
    assert read_expression("zone in (a, a)").values == ("a",)
    with pytest.raises(InvalidSpec, match="'zone in': needs 1 to 64 values"):
        read_expression("zone in ()")
    with pytest.raises(InvalidSpec, match="values"):
        LabelExpression("zone", LabelOperator.IN, tuple(f"v{n}" for n in range(VALUES_MAX + 1)))


def test_existence_takes_no_values() -> None:
    with pytest.raises(InvalidSpec, match="no values"):
        LabelExpression("zone", LabelOperator.EXISTS, ("a",))
