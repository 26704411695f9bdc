"""Pages of a list."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.api.pagination import (
    PLACE_MAX,
    cursor_of,
    encoded_fields,
    name_after,
    number_of,
    page_by_name,
    page_response,
    place_of,
    session_position,
)
from sokovan.domain.problems import InvalidRequest
from sokovan.ports.repositories.sessions import SessionPosition, SessionSort
from sokovan.wire.api.fleet import DeviceHolder


@given(st.integers(min_value=0, max_value=PLACE_MAX))
def test_a_cursor_keeps_its_place(place: int) -> None:
    assert number_of(cursor_of(place)) == place


def test_no_cursor_is_the_beginning() -> None:
    assert number_of(None) is None


@pytest.mark.parametrize(
    "cursor",
    [
        "!",
        "é",
        "a",
        "====",
        cursor_of("text"),
        cursor_of("-1"),
        cursor_of("1.5"),
        cursor_of("²"),
        cursor_of("9" * 30),
        cursor_of(PLACE_MAX + 1),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ],
)
def test_what_is_no_place_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="not a cursor"):
        number_of(cursor)


@pytest.mark.parametrize("text", ["7", "x alice", "7 \0", "7 é", "7 a\nb"])
def test_a_sorted_list_goes_on_after_a_place_and_a_value(text: str) -> None:
    assert session_position(cursor_of("7 alice"), SessionSort.USER) == SessionPosition(7, "alice")
    assert session_position(cursor_of("7 4000"), SessionSort.GPUS) == SessionPosition(7, 4000)
    assert session_position(cursor_of("7"), SessionSort.SUBMITTED) == SessionPosition(7)
    for refused, by in ((text, SessionSort.USER), ("7 alice", SessionSort.GPUS), ("7 alice", SessionSort.SUBMITTED)):
        with pytest.raises(InvalidRequest, match="not a cursor"):
            session_position(cursor_of(refused), by)


def test_only_a_name_is_a_place_among_names() -> None:
    assert name_after(None) == ""
    assert name_after(cursor_of("gpu-7")) == "gpu-7"
    for text in ("\0", "a b", "", "x" * 300):
        with pytest.raises(InvalidRequest, match="not a cursor"):
            name_after(cursor_of(text))


@given(
    st.lists(st.text(max_size=5), unique=True, max_size=12),
    st.integers(min_value=1, max_value=5),
)
def test_pages_one_after_the_other_give_every_item_once_in_order(names: list[str], limit: int) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = page_by_name(names, str, limit=limit, cursor=cursor)
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert seen == sorted(names)


def test_a_cursor_of_a_name_that_is_gone_goes_on_after_it() -> None:
    assert page_by_name(["a", "c"], str, limit=5, cursor=cursor_of("b")) == (["c"], None)
    assert place_of(cursor_of("b")) == "b"


async def test_a_wide_object_is_encoded_as_in_one_step() -> None:
    holder = DeviceHolder(id="s-1", name='a "name"', user="ada", queue="default")
    assert await encoded_fields(holder) == msgspec.json.encode(holder)


async def test_other_tasks_run_while_the_items_of_a_long_page_are_made() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(250):
            made.append(number)
            yield number

    async def seen() -> int:
        return len(made)

    page, between = await asyncio.gather(page_response(items(), None), seen())
    assert 0 < between < 250
    assert msgspec.json.decode(page.body)["items"] == list(range(250))
