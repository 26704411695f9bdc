"""Reading and running command lines."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from io import StringIO

import pytest

from sokovan import __version__
from sokovan.cli.app import arguments_of, parsed, run_command
from sokovan.cli.command_table import COMMANDS
from sokovan.cli.errors import CommandError
from tests.quick import sampled


@cache
def help_of(words: str) -> str:
    """The help of a command, as it is printed."""
    with redirect_stdout(StringIO()) as out:
        assert run_command([*words.split(), "--help"]) == 0
    return out.getvalue()


@pytest.mark.parametrize("words", sampled(sorted(COMMANDS), every=4))
def test_every_command_has_help_with_a_summary_and_examples(words: str) -> None:
    out = help_of(words)
    place, summary = COMMANDS[words]
    assert out.startswith(f"Usage: sokovan {words}")
    assert summary in " ".join(out.split())
    assert "For example:" in out
    assert f"sokovan {words.split(maxsplit=1)[0]}" in out
    module, _, name = place.partition(":")
    assert (getattr(import_module(module), name).__doc__ or "").partition("\n")[0] == summary


@pytest.mark.parametrize("words", sampled(sorted(COMMANDS), every=4))
def test_help_fits_a_terminal_of_80_columns(words: str) -> None:
    assert [line for line in help_of(words).splitlines() if len(line) > 80] == []


@pytest.mark.slow
def test_every_option_has_help() -> None:
    silent = [f"{words} {one.name}" for words in COMMANDS for one in arguments_of(words).all if not one.help]
    assert silent == []


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["ps", "--colour"], "Unknown option: --colour.", "see sokovan ps --help"),
        (["session", "shwo"], "shwo", "see sokovan session --help"),
        (["session", "show"], "requires an argument", "see sokovan session show --help"),
        (["run", "--size", "four", "--", "x"], 'unable to convert "four"', "see sokovan run --help"),
        (["run", "--type", "bach", "--", "x"], 'Did you mean "batch"?', "see sokovan run --help"),
        (["--colour"], "--colour", "see sokovan --help for all commands"),
        (["completion", "tcsh"], "Choose from", "see sokovan completion --help"),
    ],
)
def test_an_invalid_command_line_is_a_usage_error(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(CommandError) as raised:
        run_command(words)
    assert message in raised.value.message
    assert (raised.value.code, raised.value.hint) == ("usage", hint)


def test_a_command_line_is_read_into_a_function_and_its_arguments() -> None:
    function, positional, keywords = parsed(["session", "show", "a", "--all-kernels"])
    assert (function.__name__, positional, keywords) == ("show", ["a"], {"all_kernels": True})
    assert parsed(["ps", "--limit", "5"])[0].__name__ == "ps"


@pytest.mark.parametrize("words", [["--help", "ps"], ["-h", "session", "show"]])
def test_help_before_a_command_is_the_overview(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words) == 0
    assert capsys.readouterr().out.startswith("Usage: sokovan COMMAND")


def test_the_version_is_an_option_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["ps", "--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"
    with pytest.raises(CommandError, match="NAME requires"):
        run_command(["exec", "--"])


def test_an_option_and_its_opposite_exclude_each_other() -> None:
    with pytest.raises(CommandError, match="--closed and its opposite are both given; give one of them"):
        run_command(["queue", "set", "default", "--open", "--closed"])


@pytest.mark.parametrize(
    "words", ["plan --size 2.7", "serve toy --replicas 1.5", "deployment scale toy 1.5", "ps --limit 0x10"]
)
def test_a_number_that_is_not_whole_is_refused_and_not_rounded(words: str) -> None:
    with pytest.raises(CommandError, match="is not a whole number"):
        run_command(words.split())


def test_an_option_that_is_given_twice_is_called_so() -> None:
    with pytest.raises(CommandError, match="--priority specified multiple times"):
        run_command(["plan", "--priority", "5", "--priority=-1", "--", "true"])
    with pytest.raises(CommandError, match="preemptible and its opposite are both given"):
        run_command(["plan", "--preemptible", "--not-preemptible", "--", "true"])
