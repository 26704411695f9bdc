"""Generates names for sessions that were submitted without one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.ids import checked_name
from sokovan.orchestrator.sessions.intake.names import COUNT, name_of


@pytest.mark.slow
@given(st.integers(-(2**70), 2**70))
def test_every_number_has_a_name_that_is_one(number: int) -> None:
    name = name_of(number)

    assert checked_name(name, what="session") == name
    assert re.fullmatch(r"[a-z]+-[a-z]+-[1-9][0-9]?", name)
    assert len(name) <= 20


@pytest.mark.slow
def test_numbers_near_each_other_have_different_names() -> None:
    names = {name_of(number) for number in range(50_000)}

    assert len(names) == 50_000


@given(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1))
def test_no_two_numbers_below_the_count_share_a_name(first: int, second: int) -> None:
    assert (name_of(first) == name_of(second)) == (first == second)


def test_there_are_enough_names_for_chance_to_choose_from() -> None:
    assert COUNT > 1_000_000
