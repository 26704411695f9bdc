"""Ids that sort by the time of their making."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from sokovan.adapters.local.ids import DIGITS, LENGTH, SortableIds
from sokovan.domain.errors import InvalidName
from sokovan.domain.ids import is_name


class SetClock:
    def __init__(self, *moments: int) -> None:
        self.moments = list(moments)

    def now_ms(self) -> int:
        return self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]

    def monotonic_ms(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"unexpected sleep of {seconds} s")


def always(chance: int) -> Callable[[int], int]:
    return lambda _bits: chance


@pytest.mark.parametrize("moment", [0, 1, 31, 32, 1_023, 1_700_000_000_000, 2**48 - 1])
@pytest.mark.parametrize("chance", [0, 1, 33, 2**79 + 12_345, 2**80 - 1])
def test_the_digits_are_those_of_the_number_one_by_one(moment: int, chance: int) -> None:
    made = SortableIds(SetClock(moment), random_bits=always(chance)).new("s")
    number = 0
    for digit in made.removeprefix("s-"):
        number = number * len(DIGITS) + DIGITS.index(digit)
    assert (number, len(made)) == (moment << 80 | chance, len("s-") + LENGTH)


def test_an_id_is_its_prefix_a_hyphen_and_26_digits() -> None:
    made = SortableIds(SetClock(1_700_000_000_000)).new("s")
    assert re.fullmatch(f"s-[{DIGITS}]{{{LENGTH}}}", made)
    assert is_name(made)


def test_the_first_ten_digits_are_the_time_and_the_rest_is_chance() -> None:
    # The known example of the ULID specification: 1469918176385 ms is written 01ARYZ6S41.
    assert SortableIds(SetClock(1_469_918_176_385), random_bits=always(0)).new("k") == "k-01ARYZ6S41" + 16 * "0"
    assert SortableIds(SetClock(0), random_bits=always(2**80 - 1)).new("k") == "k-" + 10 * "0" + 16 * "Z"


def test_within_one_millisecond_the_last_id_is_counted_up() -> None:
    ids = SortableIds(SetClock(7), random_bits=always(40))
    assert [ids.new("a")[-2:] for _ in range(3)] == ["18", "19", "1A"]


def test_ids_keep_growing_when_the_clock_jumps_back() -> None:
    ids = SortableIds(SetClock(2000, 1000, 500, 2001))
    made = [ids.new("a") for _ in range(4)]
    assert made == sorted(made)
    assert len(set(made)) == 4


def test_when_a_millisecond_has_no_numbers_left_the_next_one_is_used() -> None:
    ids = SortableIds(SetClock(5), random_bits=always(2**80 - 1))
    first, second = ids.new("a"), ids.new("a")
    assert first < second
    assert second[2:12] == 9 * "0" + "6"


@pytest.mark.slow
def test_many_threads_never_get_the_same_id() -> None:
    ids = SortableIds(SetClock(1))
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: ids.new("a"), range(4000)))
    assert len(set(made)) == 4000


@pytest.mark.slow
def test_a_hundred_thousand_ids_each_sort_after_the_one_before() -> None:
    ids = SortableIds(SetClock(*range(0, 1000, 3)))
    made = [ids.new("a") for _ in range(100_000)]
    assert all(before < after for before, after in pairwise(made))


def test_a_forked_process_does_not_continue_the_ids_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = SortableIds(SetClock(9), random_bits=_draws(10, 500))
    ids.new("a")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert ids.new("a").endswith(DIGITS[500 // 32] + DIGITS[500 % 32])


def _draws(*chances: int) -> Callable[[int], int]:
    left = list(chances)
    return lambda _bits: left.pop(0)


@pytest.mark.parametrize("prefix", ["", " ", "a b", "-a", "x" * 200])
def test_a_prefix_that_is_no_name_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidName, match="kind of id"):
        SortableIds(SetClock(1)).new(prefix)
