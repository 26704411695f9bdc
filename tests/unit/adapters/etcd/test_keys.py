"""The layout of a configuration in etcd."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.etcd.keys import (
    GUARD,
    TOKENS_KEPT,
    KeyChange,
    Pair,
    Stored,
    checked_prefix,
    decoded,
    encoded,
    guard_with,
    key_changes,
    tokens,
)
from sokovan.domain.errors import InvalidName
from sokovan.ports.config import ConfigValue, UnreadableConfig, section_and_entry


def stored(pairs: dict[str, object], at: int = 10) -> Stored:
    return Stored(tuple(Pair(key, json.dumps(value).encode(), 1) for key, value in pairs.items()), at)


def test_a_section_is_its_own_key_with_the_keys_of_its_entries_above_it() -> None:
    found = stored({"a/y": 3, "a": {"x": 1, "y": 2}, "b/deep/er": True, "c": 5}).tree()
    assert found.values == {"a": {"x": 1, "y": 3}, "b": {"deep/er": True}, "c": 5}


def test_a_section_and_one_whose_name_goes_on_are_not_mixed_up() -> None:
    found = stored({"a": {"x": 1}, "a-b": {"y": 1}, "a/z": 2, "a-b/w": 3}).tree()
    assert found.values == {"a": {"x": 1, "z": 2}, "a-b": {"y": 1, "w": 3}}


def test_the_guard_is_no_section_but_counts_for_the_revision() -> None:
    with_guard = Stored((Pair(GUARD, b"token", 5),), 5)
    assert with_guard.tree().values == {}
    assert with_guard.guard == b"token"
    assert Stored((), 5).guard == b""
    assert with_guard.revision != Stored((), 5).revision


def test_the_revision_is_that_of_our_keys_and_not_of_the_server() -> None:
    pairs = (Pair("a", b"1", 3), Pair("b", b"2", 4))
    assert Stored(pairs, 4).revision == Stored(tuple(reversed(pairs)), 900).revision
    others = [
        (Pair("a", b"1", 3),),
        (Pair("a", b"1", 3), Pair("b", b"2", 5)),
        (Pair("a", b"1", 3), Pair("b", b"3", 4)),
        (Pair("a", b"1", 3), Pair("c", b"2", 4)),
    ]
    assert len({Stored(pairs, 4).revision, *(Stored(other, 4).revision for other in others)}) == 5


@pytest.mark.parametrize(
    ("pairs", "path", "problem"),
    [
        ({"a": b"{"}, "a", "is not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ({"a": b"\xff"}, "a", "is not UTF-8 text"),
        ({"a": b"null"}, "a", "None cannot be kept"),
        ({"a": b'{"x": [1, null]}'}, "a.x[1]", "None cannot be kept"),
        ({"a": b"NaN"}, "a", "nan cannot be kept"),
        ({"a": b"9223372036854775808"}, "a", "9223372036854775808 has more than 64 bits"),
        ({"a": b"5", "a/x": b"1"}, "a/x", "is an entry, but a is a single value"),
        ({"a": b"[" * 40 + b"]" * 40}, "a" + "[0]" * 32, "is nested more than 32 deep"),
        ({"a": b"[" * 100_000}, "a", "cannot be decoded as JSON"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_key(pairs: dict[str, bytes], path: str, problem: str) -> None:
    with pytest.raises(UnreadableConfig) as refused:
        Stored(tuple(Pair(key, value, 1) for key, value in pairs.items()), 1).tree()
    assert (refused.value.path, refused.value.problem) == (path, problem)


@pytest.mark.parametrize(
    "value", [None, math.nan, math.inf, 2**63, b"x", {1: 2}, {"x": None}, [object()], "\ud800", {"\udfff": 1}]
)
def test_what_cannot_be_kept_is_not_written(value: Any) -> None:
    with pytest.raises(UnreadableConfig):
        encoded(value, key="a")


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=10,
)
NAMES = st.sampled_from(["a", "b", "a-b"])
ASKED = st.none() | st.integers(0, 3) | st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3))
PLACES = NAMES | st.builds("{}.{}".format, NAMES, st.sampled_from(["x", "y", "x/y", "x.y"]))


@pytest.mark.slow
@given(VALUES)
def test_what_is_encoded_is_decoded_equal(value: ConfigValue) -> None:
    back = decoded(encoded(value, key="a").encode(), key="a")
    assert repr(_sorted(back)) == repr(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
@given(st.lists(st.dictionaries(PLACES, ASKED, max_size=4), max_size=5))
def test_the_steps_of_any_changes_lead_to_what_was_asked(rounds: list[dict[str, Any]]) -> None:
    keys: dict[str, str] = {}
    wanted: dict[str, Any] = {}
    for changes in rounds:
        before = Stored(tuple(Pair(key, value.encode(), 1) for key, value in keys.items()), 1)
        try:
            plan = key_changes(before, changes)
        except UnreadableConfig:
            continue
        wanted = _asked(wanted, changes)
        for step in plan:
            _carry_out(keys, step)
        after = Stored(tuple(Pair(key, value.encode(), 1) for key, value in keys.items()), 1)
        assert after.tree().values == wanted
        _no_key_twice(plan)


def _asked(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The same, in the plainest Python."""
    after = {section: dict(value) if isinstance(value, dict) else value for section, value in values.items()}
    for place, value in changes.items():
        section, dot, entry = place.partition(".")
        if not dot:
            after[section] = value
        elif value is not None:
            after.setdefault(section, {})[entry] = value
        elif entry in after.get(section, {}):
            del after[section][entry]
            after[section] = after[section] or None
        elif section in after and not after[section]:
            after[section] = None
        after = {name: kept for name, kept in after.items() if kept is not None}
    return after


def _carry_out(keys: dict[str, str], step: KeyChange) -> None:
    if step.is_below:
        for key in [key for key in keys if key.startswith(step.key)]:
            del keys[key]
    elif step.value is None:
        keys.pop(step.key, None)
    else:
        keys[step.key] = step.value


def _no_key_twice(plan: list[KeyChange]) -> None:
    """Etcd refuses a transaction that touches one key twice."""
    single = [step.key for step in plan if not step.is_below]
    assert len(set(single)) == len(single)
    assert not [key for step in plan if step.is_below for key in single if key.startswith(step.key)]


def test_one_entry_is_written_by_itself() -> None:
    assert key_changes(stored({"a": {"x": 1}}), {"a.y": [1]}) == [KeyChange("a/y", "[1]")]


def test_an_entry_is_removed_from_wherever_it_is_written() -> None:
    assert key_changes(stored({"a": {"x": 1, "y": 2}}), {"a.y": None}) == [KeyChange("a", '{"x": 1}')]
    assert key_changes(stored({"a/x": 1, "a/y": 2}), {"a.y": None}) == [
        KeyChange("a", '{"x": 1}'),
        KeyChange("a/", is_below=True),
    ]
    assert key_changes(stored({"a/y": 2}), {"a.y": None}) == [KeyChange("a"), KeyChange("a/", is_below=True)]


def test_changes_that_change_nothing_need_no_step() -> None:
    assert key_changes(stored({"a": {"x": 1}}), {"a.x": 1, "b": None, "c.d": None}) == []
    assert key_changes(stored({"a": {"x": 1}}), {"a.x": True}) == [KeyChange("a/x", "true")]


def test_many_entries_of_one_section_are_few_steps() -> None:
    changes: dict[str, ConfigValue | None] = {f"a.e{number}": number for number in range(500)}
    assert len(key_changes(stored({"a/e1": 0}), changes)) == 2


def test_a_single_value_has_no_entries() -> None:
    with pytest.raises(UnreadableConfig, match="a: is a single value"):
        key_changes(stored({"a": 1}), {"a.x": 1})


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", ".guard", "a b", "a/b", "ä"])
def test_what_is_no_name_of_a_section_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        key_changes(stored({}), {"good": 1, name: 1})


def test_an_entry_may_have_dots_and_slashes() -> None:
    assert section_and_entry("a.b.c/d") == ("a", "b.c/d")


@pytest.mark.parametrize(("given", "prefix"), [("/sokovan/config", "/sokovan/config/"), ("/a-b/", "/a-b/")])
def test_a_prefix_ends_in_a_slash(given: str, prefix: str) -> None:
    assert checked_prefix(given) == prefix


@pytest.mark.parametrize("prefix", ["", "/", "a", "a/b", "//a", "/a//b", "/a b"])
def test_a_prefix_that_would_take_in_too_much_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidName, match="prefix of keys"):
        checked_prefix(prefix)


def test_the_guard_remembers_the_last_writers() -> None:
    guard = b""
    for number in range(100):
        guard = guard_with(guard, f"t{number}").encode()
    assert tokens(guard) == [f"t{number}" for number in range(100 - TOKENS_KEPT, 100)]
    assert tokens(b"\xff written by hand") == ["\ufffd", "written", "by", "hand"]
