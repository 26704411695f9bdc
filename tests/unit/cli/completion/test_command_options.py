"""The options of a command, from its signature."""

from __future__ import annotations

from sokovan.cli.completion.command_options import command_options


def test_an_option_is_listed_under_each_of_its_names() -> None:
    options = command_options("run")
    assert options["-n"] == options["--name"]
    assert options["-n"].name == "--name"
    assert options["-n"].help == "Name of the session."


def test_a_flag_takes_no_value() -> None:
    options = command_options("logs")
    assert not options["-f"].takes_value
    assert options["--tail"].takes_value
    assert not options["--help"].takes_value


def test_choices_are_those_of_the_type() -> None:
    assert command_options("run")["--on-agent-lost"].choices == ("end", "requeue")
    assert command_options("run")["--name"].choices == ()


def test_positional_arguments_are_not_among_them() -> None:
    assert all(name.startswith("-") for name in command_options("session show"))
