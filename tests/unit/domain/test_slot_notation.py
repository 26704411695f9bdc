"""Parses and formats slot amounts such as `mem=1.5Gi`."""

from __future__ import annotations

import doctest

import pytest

from sokovan.domain import slot_notation
from sokovan.domain.errors import InvalidSlots
from sokovan.domain.slot_notation import (
    COUNT,
    CPU,
    MEMORY,
    SHARES,
    TEXT_MAX,
    SlotKind,
    format_amount,
    format_slots,
    kind_of,
    parse_amount,
    parse_slots,
    read_slots,
)
from sokovan.domain.slots import AMOUNT_MAX, NO_SLOTS, ResourceSlot


def test_the_examples_in_the_docstrings_hold() -> None:
    outcome = doctest.testmod(slot_notation)
    assert (outcome.failed, outcome.attempted > 0) == (0, True)


@pytest.mark.parametrize(
    ("slot", "kind"),
    [
        ("cpu", CPU),
        ("mem", MEMORY),
        ("cuda.mem", MEMORY),
        ("cuda.shares", SHARES),
        ("cuda.device", COUNT),
        ("cpus", COUNT),
        ("mem.device", COUNT),
        ("shares", COUNT),
    ],
)
def test_the_name_of_a_slot_decides_how_it_is_counted(slot: str, kind: SlotKind) -> None:
    assert kind_of(slot) is kind


@pytest.mark.parametrize("kind", slot_notation.KINDS, ids=lambda kind: str(kind.name))
def test_the_example_of_each_kind_can_be_read(kind: SlotKind) -> None:
    assert [kind_of(slot) for slot in parse_slots(kind.example)] == [kind]


@pytest.mark.parametrize(
    ("slot", "text", "amount"),
    [
        ("cpu", "2", 2000),
        ("cpu", "0.5", 500),
        ("cpu", "500m", 500),
        ("cpu", "0.001", 1),
        ("cpu", "1k", 1_000_000),
        ("mem", "1", 1),
        ("mem", "1B", 1),
        ("mem", "4k", 4000),
        ("mem", "4Ki", 4096),
        ("mem", "4KiB", 4096),
        ("mem", "1.5Gi", 1_610_612_736),
        ("mem", "0.5Ki", 512),
        ("mem", "2T", 2 * 10**12),
        ("mem", "8Pi", AMOUNT_MAX),
        ("cuda.shares", "0.25", 250),
        ("cuda.shares", "1m", 1),
        ("cuda.device", "8", 8),
        ("cuda.device", "1.5k", 1500),
        ("cuda.device", "007", 7),
    ],
)
def test_an_amount_is_read_in_the_units_of_its_slot(slot: str, text: str, amount: int) -> None:
    assert parse_amount(slot, text) == amount


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("cpu=2 mem=4Ki", {"cpu": 2000, "mem": 4096}),
        ("cpu=2,mem=4Ki", {"cpu": 2000, "mem": 4096}),
        ("  cpu=2 ,\n mem=4Ki,", {"cpu": 2000, "mem": 4096}),
        ("cpu=0", {}),
        ("", {}),
    ],
)
def test_slots_stand_between_blanks_or_commas(text: str, slots: dict[str, int]) -> None:
    assert parse_slots(text) == ResourceSlot(slots)


def test_a_mapping_may_mix_numbers_and_texts() -> None:
    mixed = {"cpu": 0.5, "mem": "4Gi", "cuda.device": 1, "cuda.shares": 1.0}
    assert read_slots(mixed) == parse_slots("cpu=0.5 mem=4Gi cuda.device=1 cuda.shares=1")
    assert read_slots({}) == NO_SLOTS


def test_a_float_means_its_shortest_decimal() -> None:
    assert read_slots({"cpu": 0.1, "mem": 1e15}) == ResourceSlot({"cpu": 100, "mem": 10**15})
    assert read_slots({"cpu": 1e-3}) == ResourceSlot({"cpu": 1})


@pytest.mark.parametrize(
    ("slot", "amount", "text"),
    [
        ("cpu", 2000, "2"),
        ("cpu", 500, "0.5"),
        ("cpu", 1, "0.001"),
        ("cuda.shares", 1250, "1.25"),
        ("mem", 4096, "4Ki"),
        ("mem", 4000, "4k"),
        ("mem", 1_610_612_736, "1536Mi"),
        ("mem", 1025, "1025"),
        ("mem", 128_000, "128k"),
        ("mem", 102_272_000, "99875Ki"),
        ("mem", AMOUNT_MAX, "8Pi"),
        ("mem", 0, "0"),
        ("cuda.device", 4096, "4096"),
    ],
)
def test_an_amount_is_printed_in_its_shortest_exact_form(slot: str, amount: int, text: str) -> None:
    assert format_amount(slot, amount) == text


def test_printed_slots_come_by_name() -> None:
    assert format_slots(ResourceSlot({"mem": 4096, "cpu": 500})) == "cpu=0.5 mem=4Ki"
    assert format_slots(NO_SLOTS) == ""


def test_half_a_device_is_pointed_to_shares() -> None:
    with pytest.raises(InvalidSlots) as refusal:
        parse_slots("cuda.device=0.5")
    assert refusal.value.hint == "cuda.device is counted in pieces; a part of one is cuda.shares=0.25"


def test_a_refused_unit_is_answered_with_the_units_there_are() -> None:
    with pytest.raises(InvalidSlots) as refusal:
        parse_slots("cpu=2GB")
    assert refusal.value.hint == (
        "cpu is counted in millicores: write for example cpu=0.5; units: m, k, M, G, T, P, Ki, Mi, Gi, Ti, Pi"
    )


@pytest.mark.parametrize("text", ["cuda.device=two", "fpga=0.5"])
def test_only_half_a_device_is_pointed_to_shares(text: str) -> None:
    with pytest.raises(InvalidSlots) as refusal:
        parse_slots(text)
    assert "is counted in pieces: write for example cuda.device=8" in refusal.value.hint


@pytest.mark.parametrize(("slot", "amount", "unit"), [("mem", 0.5, "bytes"), ("cpu", 1e-5, "millicores")])
def test_a_float_that_is_too_fine_is_rejected(slot: str, amount: float, unit: str) -> None:
    with pytest.raises(InvalidSlots, match=f"not a whole number of {unit}"):
        read_slots({slot: amount})


def test_a_text_may_be_as_long_as_it_is_allowed_to_be() -> None:
    assert parse_slots("cpu=2".ljust(TEXT_MAX)) == ResourceSlot({"cpu": 2000})
    with pytest.raises(InvalidSlots, match="longer than 1024 characters"):
        parse_slots("cpu=2".ljust(TEXT_MAX + 1))


@pytest.mark.parametrize("amount", [AMOUNT_MAX + 1, str(AMOUNT_MAX + 1), 10**30, 1e16])
def test_one_more_than_the_largest_amount_is_refused(amount: object) -> None:
    assert parse_amount("mem", AMOUNT_MAX) == AMOUNT_MAX
    with pytest.raises(InvalidSlots, match="more than 8Pi"):
        parse_amount("mem", amount)
