"""The options of a command, as the parser knows them."""

from __future__ import annotations

from sokovan.cli.completion.options import options_of


def test_an_option_is_known_under_each_of_its_names() -> None:
    options = options_of("run")
    assert options["-n"] == options["--name"]
    assert options["-n"].name == "--name"
    assert options["-n"].meaning == "A name of your own."


def test_a_flag_takes_no_value() -> None:
    options = options_of("logs")
    assert not options["-f"].takes_value
    assert options["--tail"].takes_value
    assert not options["--help"].takes_value


def test_choices_are_the_parsers() -> None:
    assert options_of("run")["--on-agent-lost"].choices == ("end", "requeue")
    assert options_of("run")["--name"].choices == ()


def test_words_that_are_no_options_are_not_among_them() -> None:
    assert all(name.startswith("-") for name in options_of("session show"))
