"""The notation of job arrays, and the names of their sessions."""

from __future__ import annotations

import tracemalloc

import pytest

from sokovan.domain.arrays import (
    MEMBERS_MAX,
    TEXT_MAX,
    ArrayMember,
    ArrayRequest,
    array_name,
    is_session_name,
    member_name,
    read_array,
)
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import ArrayId


@pytest.mark.parametrize(
    ("text", "indexes", "at_once"),
    [
        ("0", (0,), None),
        ("0-3", (0, 1, 2, 3), None),
        ("0-999%50", tuple(range(1000)), 50),
        ("1,3,7-9", (1, 3, 7, 8, 9), None),
        ("9,1", (1, 9), None),
        ("0-100:10", tuple(range(0, 101, 10)), None),
        ("0-7:4%1", (0, 4), 1),
    ],
)
def test_the_notation_is_read_and_written(text: str, indexes: tuple[int, ...], at_once: int | None) -> None:
    request = read_array(text)
    assert (request.indexes, request.size, request.at_once) == (indexes, len(indexes), at_once)
    assert read_array(request.text()) == request


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("a", "'a' is none"),
        ("1-", "'1-' is none"),
        ("-1", "'-1' is none"),
        ("1,,2", "'' is none"),
        ("0-9:", "is none"),
        ("\N{ARABIC-INDIC DIGIT ONE}", "is none"),
        ("0-9%", "% is not a number"),
        ("0-9%0", "%0 is not a number"),
        ("0-9%2%3", "is not a number"),
        ("5-1", "5-1 ends before it begins"),
        ("0-9:0", "has the step :0"),
        ("1,0-3", "has an index twice"),
        ("0-9999999", "has 10000000 sessions, more than 100000"),
        ("0-9999999999", "is none"),
        ("1," * TEXT_MAX, "is longer than"),
    ],
)
def test_anything_else_is_refused_with_the_problem(text: str, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem.replace("+", r"\+")) as refused:
        read_array(text)
    assert refused.value.field == "array"


def test_a_huge_array_is_refused_before_it_is_expanded() -> None:
    tracemalloc.start()
    with pytest.raises(InvalidSpec):
        read_array(",".join(["0-999999999"] * 100))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_request_of_the_limit_is_read() -> None:
    assert read_array(f"1-{MEMBERS_MAX}").size == MEMBERS_MAX
    assert ArrayRequest(((0, 4, 2),)).text() == "0-4:2"


def test_names_of_sessions_in_arrays_are_not_names_of_others() -> None:
    assert member_name("sweep", 17) == "sweep[17]"
    assert array_name("sweep[17]") == "sweep"
    assert [array_name(one) for one in ("sweep", "sweep[]", "sweep[01]", "sweep[-1]", "[1]", "sweep[1]x")] == [""] * 6
    assert is_session_name("sweep[0]")
    assert is_session_name("sweep")
    assert not is_session_name("sweep[")
    assert not is_session_name("swe ep[0]")
    assert not is_session_name("a[1][2]")


def test_a_member_has_a_valid_index_and_limit() -> None:
    assert ArrayMember(ArrayId("a"), 3, 2, 1, 3, at_once=1).index == 3
    for values in ((-1, 1, 0, 0, None), (0, 0, 0, 0, None), (0, 1, 0, 0, 0)):
        with pytest.raises(InvalidSpec):
            ArrayMember(ArrayId("a"), *values)
