"""The invariants of slot arithmetic, and that no form of writing ever rounds."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.errors import InvalidSlots, SlotUnderflow
from sokovan.domain.slot_notation import KINDS, SlotKind, format_slots, kind_of, parse_amount, parse_slots, read_slots
from sokovan.domain.slots import AMOUNT_MAX, NO_SLOTS, ResourceSlot, SlotLimits, total
from tests.property.strategies import SLOT_NAMES, amounts, any_slots, slots

ONE_SLOT_OF_EACH_KIND = {"cpu": "cpu", "memory": "cuda.mem", "shares": "cuda.shares", "count": "cuda.device"}


def limits() -> st.SearchStrategy[SlotLimits]:
    return st.dictionaries(st.sampled_from(SLOT_NAMES), amounts()).map(SlotLimits)


@given(slots(), slots(), slots())
def test_addition_is_associative_and_commutative_and_nothing_is_its_identity(
    a: ResourceSlot, b: ResourceSlot, c: ResourceSlot
) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + NO_SLOTS == a


@given(slots(), slots())
def test_equal_vectors_have_equal_hashes_and_the_same_order(a: ResourceSlot, b: ResourceSlot) -> None:
    assert hash(a + b) == hash(b + a)
    assert list(a + b) == sorted(set(a) | set(b))


@given(slots(), slots())
def test_what_was_added_can_be_taken_away_again(a: ResourceSlot, b: ResourceSlot) -> None:
    assert (a + b) - b == a


@given(slots(), slots())
def test_taking_away_works_exactly_when_it_fits(a: ResourceSlot, b: ResourceSlot) -> None:
    if b.fits(a):
        assert (a - b) + b == a
    else:
        with pytest.raises(SlotUnderflow):
            a - b


@given(slots(), slots())
def test_it_fits_exactly_when_nothing_is_short(asked: ResourceSlot, room: ResourceSlot) -> None:
    assert asked.fits(room) == (not asked.shortfall(room))


@given(slots(), slots())
def test_room_with_the_shortfall_added_is_enough_and_no_smaller_addition_is(
    asked: ResourceSlot, room: ResourceSlot
) -> None:
    short = asked.shortfall(room)
    assert asked.fits(room + short)
    for slot in short:
        assert not asked.fits(room + (short - ResourceSlot({slot: 1})))


@given(slots(most=3), slots(most=3), slots(most=3))
def test_fitting_is_a_partial_order(a: ResourceSlot, b: ResourceSlot, c: ResourceSlot) -> None:
    assert a.fits(a)
    assert not (a.fits(b) and b.fits(a)) or a == b
    assert not (a.fits(b) and b.fits(c)) or a.fits(c)


@given(slots(), slots(), slots())
def test_what_fits_beside_another_fits_alone(a: ResourceSlot, b: ResourceSlot, room: ResourceSlot) -> None:
    assert a.fits(a + b)
    assert not (a + b).fits(room) or (a.fits(room) and b.fits(room - a))


@given(slots(), slots(), st.integers(0, 1000), st.integers(0, 1000))
def test_multiplication_distributes_over_both_sides(a: ResourceSlot, b: ResourceSlot, m: int, n: int) -> None:
    assert (a + b) * n == a * n + b * n
    assert a * (m + n) == a * m + a * n
    assert (a * m) * n == a * (m * n)


@given(slots(), st.integers(0, 20))
def test_multiplication_is_repeated_addition(a: ResourceSlot, times: int) -> None:
    assert a * times == total([a] * times)


@pytest.mark.slow
@given(st.lists(slots(), max_size=6).flatmap(lambda parts: st.tuples(st.just(parts), st.permutations(parts))))
def test_a_total_is_the_sum_in_whatever_order(drawn: tuple[list[ResourceSlot], list[ResourceSlot]]) -> None:
    parts, shuffled = drawn
    whole = NO_SLOTS
    for part in parts:
        whole += part
    assert total(shuffled) == whole


@given(limits(), slots())
def test_a_limit_is_passed_by_exactly_what_is_above_it(limit: SlotLimits, used: ResourceSlot) -> None:
    above = limit.exceeded_by(used)
    assert above.fits(used)
    assert not limit.exceeded_by(used - above)
    assert set(above) == {slot for slot in limit if used[slot] > limit[slot]}


@given(any_slots())
def test_what_is_printed_is_read_back_as_it_was(vector: ResourceSlot) -> None:
    assert parse_slots(format_slots(vector)) == vector


@pytest.mark.parametrize("slot", ONE_SLOT_OF_EACH_KIND.values())
@given(amount=amounts())
def test_every_amount_of_every_kind_is_read_back_as_it_was_printed(slot: str, amount: int) -> None:
    vector = ResourceSlot({slot: amount})
    assert parse_slots(format_slots(vector)) == vector


def test_the_four_slots_tried_here_are_of_all_the_kinds_there_are() -> None:
    assert [kind_of(ONE_SLOT_OF_EACH_KIND[kind.name]) for kind in KINDS] == list(KINDS)


@st.composite
def written(draw: st.DrawFn, kind: SlotKind) -> tuple[str, Fraction]:
    """An amount as a person writes it, and what it means in stored units, by exact arithmetic."""
    whole = draw(st.integers(0, 10**6))
    places = draw(st.text("0123456789", max_size=12))
    suffix = draw(st.sampled_from(["", *kind.suffixes]))
    number = f"{whole}.{places}" if places else str(whole)
    return number + suffix, Fraction(number) * kind.suffixes.get(suffix, Fraction(1)) * kind.parts


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
@given(data=st.data())
def test_a_written_amount_is_read_exactly_or_not_at_all(kind: SlotKind, data: st.DataObject) -> None:
    slot = ONE_SLOT_OF_EACH_KIND[kind.name]
    text, exact = data.draw(written(kind))
    if exact.denominator == 1 and exact <= AMOUNT_MAX:
        assert parse_amount(slot, text) == exact
    else:
        with pytest.raises(InvalidSlots):
            parse_amount(slot, text)


@given(st.one_of(st.floats(0, 10**9), st.integers(0, 10**9).map(lambda n: n / 1000)), st.sampled_from(SLOT_NAMES))
def test_a_float_is_read_as_its_shortest_decimal_or_not_at_all(number: float, slot: str) -> None:
    exact = Fraction(Decimal(repr(number))) * kind_of(slot).parts
    if exact.denominator == 1:
        assert read_slots({slot: number})[slot] == exact
    else:
        with pytest.raises(InvalidSlots):
            read_slots({slot: number})


@given(st.integers(0, AMOUNT_MAX // 1000), st.sampled_from(SLOT_NAMES))
def test_a_number_and_its_text_mean_the_same(number: int, slot: str) -> None:
    assert read_slots({slot: number}) == parse_slots(f"{slot}={number}")
