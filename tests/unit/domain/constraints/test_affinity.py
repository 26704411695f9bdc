"""AffinityTerm: reading terms, and which sessions they name."""

from __future__ import annotations

import pytest

from sokovan.domain.constraints.affinity import AGENT, LABELS_PER_TERM_MAX, AffinityTerm, read_affinity
from sokovan.domain.errors import InvalidSpec


def test_a_term_names_sessions_with_all_of_its_labels() -> None:
    term = read_affinity("app=db,stage=prod")
    assert term.matches({"app": "db", "stage": "prod", "more": "1"})
    assert not term.matches({"app": "db"})


@pytest.mark.parametrize(
    ("text", "within"), [("app=db", AGENT), ("app=db within rack", "rack"), ("app=db within 2", 2)]
)
def test_a_term_says_how_near_counts_as_near(text: str, within: int | str) -> None:
    assert read_affinity(text).within == within
    assert str(read_affinity(text)) == text


@pytest.mark.parametrize("text", ["", "app", "=db", "app=db within", "app=db inside rack", "app=db within 0", "a b=c"])
def test_a_text_that_is_no_term_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        read_affinity(text)


def test_the_labels_of_a_term_are_bounded() -> None:
    with pytest.raises(InvalidSpec, match="labels"):
        AffinityTerm(tuple((f"l{n}", "x") for n in range(LABELS_PER_TERM_MAX + 1)))
