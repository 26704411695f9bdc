"""Kinds of settings."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sokovan.entrypoints.setting_kinds import (
    InvalidSettings,
    SettingInfo,
    SettingProblem,
    name,
    section_of,
    settings_in,
    unknown,
    url,
    whole,
)


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
    assert str(error).endswith("the previous settings stay in force [invalid-settings]")
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
