"""Kinds of settings."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings.setting_kinds import (
    InvalidSettings,
    SettingInfo,
    SettingProblem,
    name,
    origin_of,
    section_of,
    settings_in,
    switch,
    text,
    texts,
    unknown,
    url,
    whole,
)


def checked_fence(name: str) -> None:
    if name == "fog":
        raise InvalidInput(f"{name!r} is no fence")


@dataclass(frozen=True)
class Kitchen:
    ovens: int = whole(2, "How many ovens.", least=1, most=9)
    cook: str = name("remy", "Who cooks.")
    pantry: str = url("file:", "Where food is.", schemes=("file", "https"))


def problems_of(value: object) -> list[str]:
    problems: list[SettingProblem] = []
    section_of(Kitchen, value, path="kitchen", problems=problems)
    return [str(problem) for problem in problems]


def test_a_section_that_says_nothing_is_all_defaults() -> None:
    problems: list[SettingProblem] = []
    assert section_of(Kitchen, {}, path="kitchen", problems=problems) == Kitchen(2, "remy", "file:")
    assert problems == []


def test_what_is_set_takes_the_place_of_the_default() -> None:
    given = {"ovens": 9, "cook": "linguini", "pantry": "https://food"}
    assert section_of(Kitchen, given, path="kitchen", problems=[]) == Kitchen(9, "linguini", "https://food")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ovens": 0}, "kitchen.ovens: 0 must be from 1 to 9"),
        ({"ovens": 10}, "kitchen.ovens: 10 must be from 1 to 9"),
        ({"ovens": True}, "kitchen.ovens: True must be a whole number"),
        ({"ovens": 2.0}, "kitchen.ovens: 2.0 must be a whole number"),
        ({"ovens": "2"}, "kitchen.ovens: '2' must be a whole number"),
        ({"cook": 5}, "kitchen.cook: 5 must be a text"),
        ({"cook": "the cook"}, "kitchen.cook: 'the cook' is not a name"),
        ({"pantry": 5}, "kitchen.pantry: must be a text"),
        ({"pantry": "ftp://x"}, "kitchen.pantry: begins with 'ftp:'; it must begin with file:, https:"),
        ({"pantry": "here"}, "kitchen.pantry: has no known scheme; it must begin with file:, https:"),
        ({"oven": 1}, "kitchen.oven: is not known; did you mean ovens?"),
        ({"sink": 1}, "kitchen.sink: is not known; known are cook, ovens, pantry"),
        ([1], "kitchen: must be a table, not list"),
        ("x", "kitchen: must be a table, not str"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(given: object, problem: str) -> None:
    assert problems_of(given) == [problem]


def test_every_problem_of_a_section_is_named() -> None:
    assert len(problems_of({"ovens": 0, "cook": 1, "pantry": "x", "sink": 2})) == 4


@pytest.mark.parametrize("value", ["mysql://root:hunter2@db/x", "user:hunter2@db", ["https://u:hunter2@x"]])
def test_a_url_that_is_wrong_is_not_repeated_because_it_may_hold_a_password(value: object) -> None:
    [problem] = problems_of({"pantry": value})
    assert "hunter2" not in problem


def test_a_url_is_not_printed_with_its_section() -> None:
    assert "hunter2" not in repr(Kitchen(pantry="https://u:hunter2@x"))


def test_the_error_lists_every_problem_with_its_path() -> None:
    error = InvalidSettings([SettingProblem("a.b", "is bad"), SettingProblem("c", "is worse")])
    assert error.message == "2 settings cannot be used:\n  a.b: is bad\n  c: is worse"
    assert str(error).endswith("nothing was applied [invalid-settings]")
    assert InvalidSettings([SettingProblem("a", "is bad")]).message == "a setting cannot be used:\n  a: is bad"


def test_a_page_can_say_what_each_setting_is() -> None:
    found = {key: (about.form, default) for key, (about, default) in settings_in(Kitchen).items()}
    assert found == {
        "ovens": ("whole number, 1 to 9", 2),
        "cook": ("name", "remy"),
        "pantry": ("URL: `file:`, `https:`", "file:"),
    }
    assert SettingInfo("table", "x").form == "table"


def test_a_key_like_none_that_is_known_gets_the_whole_list() -> None:
    assert unknown("zzz", ["b", "a"]) == "is not known; known are a, b"


@dataclass(frozen=True)
class Garden:
    watered: bool = switch(default=True, meaning="Whether it is watered.")
    fence: str = text("wood", "What surrounds it.", check=checked_fence)
    beds: tuple[str, ...] = texts(("roses",), "What grows.")
    size: int = whole(3, "How large.", least=1, most=9)


@pytest.mark.parametrize(
    ("setting", "given", "value"),
    [
        ("watered", "false", False),
        ("watered", "TRUE", True),
        ("beds", "roses, mint", ["roses", "mint"]),
        ("fence", "iron", "iron"),
        ("size", "8", 8),
        ("size", "-8", -8),
        ("size", "8.5", "8.5"),
        ("watered", "perhaps", "perhaps"),
    ],
)
def test_a_variable_is_read_by_the_kind_of_its_setting(setting: str, given: str, value: object) -> None:
    info, _ = settings_in(Garden)[setting]
    assert info.read(given) == value


@pytest.mark.parametrize(
    ("setting", "given", "problem"),
    [
        ("watered", "perhaps", "'perhaps' must be true or false"),
        ("watered", 1, "1 must be true or false"),
        ("fence", "fog", "'fog' is no fence"),
        ("beds", "roses", "'roses' must be a list of texts"),
        ("beds", ["roses", 5], "5 must be a text"),
        ("beds", [], ""),
    ],
)
def test_every_kind_has_its_problems(setting: str, given: object, problem: str) -> None:
    info, _ = settings_in(Garden)[setting]
    assert info.problem(given) == problem


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://shop/x", "https://shop/x"),
        ("https://u:hunter2@shop/x", "https://u:(hidden)@shop/x"),
        ("https://u:hunt@er2@shop/x", "https://u:(hidden)@shop/x"),
        ("https://shop/x?password=hunter2", "https://shop/x?(hidden)"),
        ("https://u:a/b@shop", "https://u:(hidden)@shop"),
    ],
)
def test_a_url_is_shown_without_its_password(given: str, shown: str) -> None:
    info, _ = settings_in(Kitchen)["pantry"]
    assert info.shown(given) == shown


def test_the_origin_is_that_of_the_value_or_of_what_is_around_or_inside_it() -> None:
    origins = {"a": "f:1", "a.b": "f:2", "x.y": "X__Y"}
    assert [origin_of(path, origins) for path in ("a.b", "a.c", "a.b[2]", "x", "z")] == [
        "f:2",
        "f:1",
        "f:2",
        "X__Y",
        "",
    ]
