"""The arguments of a command, from its signature and its docstring."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from sokovan.cli.app import arguments_of
from sokovan.cli.arguments.command_arguments import CommandArguments, ValueType
from sokovan.cli.command_table import COMMANDS
from tests.unit.cli.arguments import commands

SUBMIT = CommandArguments("submit", commands.submit)


def test_each_type_is_read() -> None:
    assert {one.name: one.type for one in SUBMIT.all} == {
        "NAME": ValueType(str),
        "COMMAND": ValueType(str, repeated=True),
        "--all": ValueType(bool),
        "--watch": ValueType(bool),
        "--label": ValueType(str, repeated=True),
        "--size": ValueType(int),
        "--open": ValueType(bool),
        "--sort": ValueType(str, ("age", "-age")),
        "--by-queue": ValueType(str, ("yes", "no")),
        "--wait": ValueType(float),
        "--keep": ValueType(bool),
        "--file": ValueType(Path),
        "--kernels": ValueType(int, repeated=True),
        "--url": ValueType(str),
        "--json": ValueType(bool),
    }


def test_help_is_of_the_declaration_or_of_the_docstring() -> None:
    helps = {one.name: one.help for one in SUBMIT.all}
    assert (helps["NAME"], helps["--size"], helps["--url"]) == (
        "Name of it, in one word.",
        "How large it is.",
        "Server.",
    )
    assert SUBMIT.text == "Submit something.\n\nMore about it."


def test_a_switch_has_the_opposite_that_is_declared() -> None:
    negatives = {one.name: one.negatives for one in SUBMIT.all if one.is_switch}
    assert negatives == {"--all": (), "--watch": (), "--open": ("--closed",), "--keep": ("--no-keep",), "--json": ()}


def test_arguments_without_a_default_are_required() -> None:
    assert [one.name for one in SUBMIT.all if one.required] == ["NAME"]
    booked = CommandArguments("book", commands.book)
    assert [one.name for one in booked.all if one.required] == ["--from"]
    assert [one.name for one in booked.positionals] == ["NAME"]


def test_options_are_found_by_each_of_their_names() -> None:
    assert SUBMIT.options["-a"] is SUBMIT.options["--all"]
    assert SUBMIT.options["--closed"] is SUBMIT.options["--open"]
    assert "NAME" not in SUBMIT.options


def test_a_type_without_a_text_form_is_refused() -> None:
    def command(*, at: datetime) -> int:
        """Do something then."""
        del at
        return 0

    command.__annotations__["at"] = datetime  # local names cannot be looked up
    with pytest.raises(TypeError, match=r"cannot be .*datetime"):
        CommandArguments("command", command)


@pytest.mark.slow
def test_no_option_of_a_command_is_declared_twice() -> None:
    for words in COMMANDS:
        names = [name for one in arguments_of(words).all for name in (*one.names, *one.negatives)]
        assert sorted(set(names)) == sorted(names), words
