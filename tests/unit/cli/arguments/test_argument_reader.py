"""Reading command lines."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from sokovan.cli.arguments.argument_reader import read_arguments
from sokovan.cli.arguments.command_arguments import CommandArguments
from sokovan.cli.errors import CommandError
from tests.unit.cli.arguments import commands
from tests.unit.cli.arguments.commands import Common, Timed

SUBMIT = CommandArguments("submit", commands.submit)


def read(line: str) -> tuple[list[object], dict[str, object]]:
    return read_arguments(SUBMIT, shlex.split(line), hint="see help")


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("n", {}),
        ("n --all", {"all": True}),
        ("-a n", {"all": True}),
        ("n -aw", {"all": True, "watch": True}),
        ("n -wn4", {"watch": True, "size": 4}),
        ("n -wn 4", {"watch": True, "size": 4}),
        ("n -n=4", {"size": 4}),
        ("n -lx=y -l z", {"label": ("x=y", "z")}),
        ("n --label=x --label=", {"label": ("x", "")}),
        ("n --size -4", {"size": -4}),
        ("n --size=+4", {"size": 4}),
        ("n --all=no", {"all": False}),
        ("n --all=TRUE", {"all": True}),
        ("n --open", {"open": True}),
        ("n --closed", {"open": False}),
        ("n --closed=false", {"open": True}),
        ("n --no-keep", {"keep": False}),
        ("n --sort -age", {"sort": "-age"}),
        ("n --by_queue no", {"by_queue": "no"}),
        ("n --wait 2.5", {"wait": 2.5}),
        ("n --wait 2", {"wait": 2.0}),
        ("n --file a/b", {"file": Path("a/b")}),
        ("n --kernels 1 --kernels 2", {"kernels": (1, 2)}),
        ("n --json", {"common": Common(json=True)}),
        ("n --url=--x --json", {"common": Common(url="--x", json=True)}),
    ],
)
def test_options_are_read_in_every_spelling(line: str, given: dict[str, object]) -> None:
    assert read(line) == (["n"], given)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("n a b", ["n", "a", "b"]),
        ("n a --all b", ["n", "a", "b"]),
        ("n -- a --all -- b", ["n", "a", "--all", "--", "b"]),
        ("-- n -a", ["n", "-a"]),
        ("n -5 -0.5 ''", ["n", "-5", "-0.5", ""]),
    ],
)
def test_other_words_are_arguments_in_their_order(line: str, words: list[str]) -> None:
    assert read(line)[0] == words


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", 'Command "submit" parameter NAME requires an argument.'),
        ("n --size", 'Command "submit" parameter --size requires an argument.'),
        ("n -n", 'Command "submit" parameter -n requires an argument.'),
        ("n --size -- 4", 'Command "submit" parameter --size requires an argument.'),
        ("n --url --all", 'Command "submit" parameter --url requires an argument.'),
        ("n --size=", 'Invalid value for --size: unable to convert "" into int.'),
        ("n --size four", 'Invalid value for --size: unable to convert "four" into int.'),
        ("n -n 2.7", "Invalid value for -n: '2.7' is not a whole number"),
        ("n --size 0x10", "Invalid value for --size: '0x10' is not a whole number"),
        ("n --size " + "9" * 31, f"Invalid value for --size: '{'9' * 31}' is not a whole number"),
        ("n --wait long", 'Invalid value for --wait: unable to convert "long" into float.'),
        ("n --all=maybe", 'Invalid value for --all: unable to convert "maybe" into bool.'),
        ("n --sort nme", 'Invalid value "nme" for --sort. Choose from: "age", "-age".'),
        ("n --by-queue ye", 'Choose from: "yes", "no". Did you mean "yes"?'),
        ("n --al", "Unknown option: --al. Did you mean --all?"),
        ("n --al=x", "Unknown option: --al. Did you mean --all?"),
        ("n --no-all", "Unknown option: --no-all. Did you mean"),
        ("n -xa", "Unknown option: -xa. -x is not a recognized option."),
        ("n -ax", "Unknown option: -x."),
        ("n --ALL", "Unknown option: --ALL."),
        ("n --json --json", "Parameter --json specified multiple times."),
        ("n --size 1 -n 2", "Parameter -n specified multiple times."),
        ("n --open --closed", "--closed and its opposite are both given; give one of them"),
    ],
)
def test_what_is_wrong_is_said(line: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        read(line)
    assert message in caught.value.message
    assert (caught.value.code, caught.value.hint) == ("usage", "see help")


def test_a_word_too_many_and_a_missing_option_are_refused() -> None:
    booked = CommandArguments("book", commands.book)
    with pytest.raises(CommandError, match="unexpected argument 'b'"):
        read_arguments(booked, ["a", "b", "--from", "now"], hint="")
    with pytest.raises(CommandError, match="parameter --from requires an argument"):
        read_arguments(booked, ["a", "--for", "2h"], hint="")
    assert read_arguments(booked, ["--from", "now"], hint="") == ([], {"timed": Timed(begins="now")})
