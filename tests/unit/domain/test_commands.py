"""The command, environment and paths of a kernel, validated."""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.commands import (
    ARGUMENTS_MAX,
    COMMAND_BYTES_MAX,
    ENVIRONMENT_BYTES_MAX,
    PATH_MAX,
    is_plain_path,
    require_command,
    require_environment,
)
from sokovan.domain.errors import InvalidSpec

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).filter(lambda n: not n.startswith("SOKOVAN_"))


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("true",),
        ("python", "-c", "print('hello')\n"),
        ("sh", "", "; rm -rf / #", "$(x)", "ünï"),
        ("x",) * ARGUMENTS_MAX,
        ("x" * COMMAND_BYTES_MAX,),
    ],
)
def test_a_command_is_a_list_of_any_texts(command: tuple[str, ...]) -> None:
    require_command(command, what="kernel k")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("python -c x", "must be a list of texts"),
        (["python"], "must be a list of texts"),
        (None, "must be a list of texts"),
        (("python", 3), "must be a list of texts"),
        ((b"python",), "must be a list of texts"),
        (("",), "empty program name"),
        (("", "x"), "empty program name"),
        (("python", "a\0b"), "has a NUL"),
        (("\0",), "has a NUL"),
        (("python", "\ud800"), "half a character"),
        (("x",) * (ARGUMENTS_MAX + 1), "is more than"),
        (("x" * (COMMAND_BYTES_MAX + 1),), "is more than"),
        (("ü" * (COMMAND_BYTES_MAX // 2 + 1),), "is more than"),
    ],
)
def test_another_command_is_refused_with_the_reason(command: Any, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem) as refused:
        require_command(command, what="kernel k")
    assert (refused.value.what, refused.value.field) == ("kernel k", "command")


@pytest.mark.slow
@given(st.tuples(TEXTS.filter(bool), TEXTS, TEXTS))
def test_whatever_a_program_can_be_given_is_a_command(command: tuple[str, ...]) -> None:
    require_command(command, what="kernel k")


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4).map(tuple))
def test_a_command_is_taken_exactly_if_the_system_could_start_it(command: tuple[str, ...]) -> None:
    startable = bool(command[0]) and all(_can_be_passed(part) for part in command)
    assert _taken(command) is startable


def _can_be_passed(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _taken(command: tuple[str, ...]) -> bool:
    try:
        require_command(command, what="kernel k")
    except InvalidSpec:
        return False
    return True


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"A": "", "_": "x", "a1_B": "ü\n=;$"},
        {"SOKOVAN": "x", "sokovan_x": "y", "XSOKOVAN_": "z"},
        {"N" * 128: "x"},
        {"A": "x" * (ENVIRONMENT_BYTES_MAX - 1)},
        MappingProxyType({"A": "b"}),
        OrderedDict(A="b"),
    ],
)
def test_an_environment_is_variables_by_name(environment: Any) -> None:
    require_environment(environment, what="kernel k")


@pytest.mark.parametrize(
    ("environment", "field", "problem"),
    [
        (None, "environment", "must be a mapping"),
        ([("A", "b")], "environment", "must be a mapping"),
        ("A=b", "environment", "must be a mapping"),
        ({"": "x"}, "environment", "not a name for a variable"),
        ({"1A": "x"}, "environment", "not a name for a variable"),
        ({"A-B": "x"}, "environment", "not a name for a variable"),
        ({"A=B": "x"}, "environment", "not a name for a variable"),
        ({"A\n": "x"}, "environment", "not a name for a variable"),
        ({"Ä": "x"}, "environment", "not a name for a variable"),
        ({"A\0": "x"}, "environment", "not a name for a variable"),
        ({"N" * 129: "x"}, "environment", "not a name for a variable"),
        ({3: "x"}, "environment", "not a name for a variable"),
        ({"SOKOVAN_RANK": "0"}, "environment", "not SOKOVAN_"),
        ({"A": 1}, "environment.A", "must be a text"),
        ({"A": None}, "environment.A", "must be a text"),
        ({"A": "x\0y"}, "environment.A", "without NUL"),
        ({"A": "\udcff"}, "environment.A", "must be a text"),
        ({"A": "x" * ENVIRONMENT_BYTES_MAX}, "environment", "is more than"),
        ({f"A{number}": "ü" * 1000 for number in range(40)}, "environment", "is more than"),
    ],
)
def test_another_environment_is_refused_with_the_place(environment: Any, field: str, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem) as refused:
        require_environment(environment, what="kernel k")
    assert refused.value.field == field


@pytest.mark.slow
@given(st.dictionaries(NAMES, TEXTS, max_size=5))
def test_whatever_the_system_can_hand_on_is_an_environment(environment: dict[str, str]) -> None:
    require_environment(environment, what="kernel k")


@pytest.mark.parametrize(
    "path",
    ["/", "/data", "/data/sets.v1", "/a b/ü", "/...", "/..a", "/a/.hidden", "//a", "/a/", "/" + "x" * (PATH_MAX - 1)],
)
def test_a_path_says_where_it_leads(path: str) -> None:
    assert is_plain_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "data",
        "./data",
        "~/data",
        "/a/../b",
        "/..",
        "/../etc/passwd",
        "/a/..",
        "/.",
        "/a/./b",
        "/a\0",
        "/a\nb",
        "/a\tb",
        "/a\x1b[0m",
        "/\u202egnp",
        "/\ud800",
        "C:\\data",
        "/" + "x" * PATH_MAX,
        None,
        3,
        b"/data",
        ("/data",),
    ],
)
def test_a_path_that_leads_elsewhere_or_hides_it_is_none(path: object) -> None:
    assert not is_plain_path(path)


@given(st.lists(st.sampled_from(["a", "b.c", "..", ".", "", "x y"]), max_size=6))
def test_no_path_that_is_taken_climbs(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    assert is_plain_path(path) is not bool({".", ".."} & set(parts))
