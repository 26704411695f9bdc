"""The errors raised on purpose, each with a stable code and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sokovan.domain import errors
from sokovan.domain.errors import (
    QUOTED_MAX,
    ForbiddenCause,
    IllegalTransition,
    InvalidInput,
    InvalidName,
    InvalidQueues,
    InvalidSlots,
    InvalidSpec,
    InvalidTable,
    InvalidTopology,
    LifecycleError,
    SlotUnderflow,
    SokovanError,
    TopologyMismatch,
    listed,
    nearest,
    quoted,
)


def family(error: type[SokovanError]) -> Iterator[type[SokovanError]]:
    yield error
    for child in error.__subclasses__():
        yield from family(child)


OURS = [error for error in family(SokovanError) if error.__module__ == errors.__name__]


def test_a_message_ends_with_the_hint_and_the_code() -> None:
    error = InvalidName(what="queue", name="a b")
    assert str(error).splitlines() == [
        "'a b' is not a name for a queue",
        "  hint: use 1 to 128 letters, digits and . _ - / : @ + beginning with a letter or digit [invalid-name]",
    ]


def test_a_hint_may_be_more_precise_for_one_occasion() -> None:
    precise = InvalidSlots(given="gpu=0.5", problem="not whole", hint="ask for shares")
    assert precise.hint == "ask for shares"
    assert InvalidSlots(given="gpu=0.5", problem="not whole").hint == InvalidSlots.hint


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SlotUnderflow(slot="cpu", have=1, taken=2), "cannot take 2 cpu from 1"),
        (TopologyMismatch(name="r9"), "the topology has no agent or HyperNode 'r9'"),
        (InvalidTopology(hypernode="r1", problem="has no members"), "HyperNode 'r1' has no members"),
        (InvalidQueues(queue="q1", problem="is given twice"), "queue 'q1' is given twice"),
        (InvalidTable(machine="door", problem="has no rows"), "the door table has no rows"),
        (
            InvalidSpec(what="session s1", field="priority", value="high", problem="must be a whole number"),
            "session s1: priority = 'high': must be a whole number",
        ),
        (
            IllegalTransition(machine="session", state="pending", trigger="forced", legal=["allocated", "withdrawn"]),
            "session in pending cannot take forced; legal here: allocated, withdrawn",
        ),
        (
            ForbiddenCause(machine="kernel", trigger="started", cause="controller", allowed=["agent_report"]),
            "started of a kernel may come from agent_report, not from controller",
        ),
    ],
)
def test_a_message_names_what_happened_to_what(error: SokovanError, message: str) -> None:
    assert error.message == message
    assert message in str(error)


def test_what_the_message_says_can_also_be_read_by_a_program() -> None:
    short = SlotUnderflow(slot="cpu", have=1, taken=2)
    assert (short.slot, short.have, short.taken) == ("cpu", 1, 2)
    wrong = InvalidSpec(what="agent a1", field="port", value=0, problem="must be 1 or more")
    assert (wrong.what, wrong.field, wrong.value) == ("agent a1", "port", 0)


def test_every_error_has_a_code_of_its_own_in_kebab_case_and_a_hint() -> None:
    codes = [error.code for error in OURS]
    assert len(set(codes)) == len(codes)
    assert all(code.replace("-", "").isalpha() and code == code.lower() for code in codes)
    assert all(error.hint for error in OURS)


def test_bad_input_and_bad_moves_can_each_be_caught_as_one() -> None:
    assert {InvalidName, InvalidSlots, InvalidTopology, InvalidQueues, InvalidSpec} < set(family(InvalidInput))
    assert {InvalidTable, IllegalTransition, ForbiddenCause} < set(family(LifecycleError))


def test_the_tree_at_the_top_of_the_module_shows_every_error() -> None:
    shown = set(re.findall(r"\b[A-Z]\w+", errors.__doc__ or ""))
    assert {error.__name__ for error in OURS} <= shown


def test_an_unknown_name_is_answered_with_the_nearest_one_or_with_all() -> None:
    assert nearest("cpus", ["cpu", "mem"]) == "did you mean cpu?"
    assert nearest("disk", ["mem", "cpu"]) == "known are cpu, mem"


def test_a_quoted_value_is_shown_as_it_was_written() -> None:
    assert quoted("a\nb") == r"'a\nb'"
    assert quoted(None) == "None"


def test_a_long_value_is_cut_and_its_length_given() -> None:
    assert quoted("x" * 5000) == f"'{'x' * (QUOTED_MAX - 1)}… (5002 characters)"
    assert quoted("x" * (QUOTED_MAX - 2)) == f"'{'x' * (QUOTED_MAX - 2)}'"


def test_a_value_that_cannot_be_printed_is_named_by_its_type() -> None:
    nest: list[object] = []
    for _ in range(5000):
        nest = [nest]
    assert quoted(10**5000) == "an unprintable int"
    assert quoted(nest) == "an unprintable list"


def test_a_list_in_a_message_is_sorted_and_never_blank() -> None:
    assert listed({"mem", "cpu"}) == "cpu, mem"
    assert listed([]) == "none"
    assert listed([], nothing="no slots") == "no slots"


def test_the_path_of_a_field_keeps_the_dots_of_a_key() -> None:
    wrong = InvalidSpec(what="session s", field="labels.team.name", value="", problem="is empty")
    assert wrong.path == "labels/team.name"
