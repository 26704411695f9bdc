"""The argument parser; each command's module loads when the command runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

from cyclopts import App, CycloptsError, Group, Parameter, Token, convert
from cyclopts.exceptions import RepeatArgumentError, UnusedCliTokensError

from sokovan import __version__
from sokovan.cli.command_table import COMMANDS, NOUNS
from sokovan.cli.errors import usage_error
from sokovan.cli.exit_codes import OK

_HELP = {"-h", "--help"}
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
# These take a user command after --, with options of its own.
_USAGE = {
    "run": "Usage: sokovan run [OPTIONS] -- COMMAND [ARGS...]",
    "plan": "Usage: sokovan plan [OPTIONS] -- COMMAND [ARGS...]",
    "exec": "Usage: sokovan exec [OPTIONS] NAME -- COMMAND [ARGS...]",
}


def make_app(*, helps: bool = True, only: str = "") -> App:
    """Create the parser with every command of the command table, or with one.

    The formatter of help screens is slow to load; without `helps` it is left out.
    """
    commands = {only: COMMANDS[only]} if only else COMMANDS
    nouns = {words.rpartition(" ")[0] for words in commands} - {""}
    app = App(
        name="sokovan",
        version=__version__,
        help="An orchestrator for AI compute.",
        help_format="plaintext",
        help_formatter="plain" if helps else None,
        group_parameters=Group("Options", sort_key=1),
        default_parameter=Parameter(show_default=False, converter=_value_of),
        suppress_keyboard_interrupt=False,
    )
    parents = {"": app} | {name: App(name=name, help=summary) for name, summary in NOUNS.items() if name in nouns}
    for name, parent in parents.items():
        if name:
            app.command(parent)
    for words, (import_path, _) in commands.items():
        noun, _, verb = words.rpartition(" ")
        parents[noun].command(import_path, name=verb, usage=_USAGE.get(words))
    return app


def _value_of(hint: Any, tokens: Sequence[Token]) -> Any:
    """The value of an argument; a whole number is one as it is written, and is not rounded.

    Raises ValueError.
    """
    value = convert(hint, tokens)
    if int in (hint, *get_args(hint)) and not _WHOLE.fullmatch(tokens[0].value):
        raise ValueError(f"{tokens[0].value[:60]!r} is not a whole number")
    return value


def run_command(words: list[str]) -> int:
    """Parse and run a command line; return its exit code."""
    try:
        own = words[: words.index("--")] if "--" in words else words
        app = make_app(helps=not _HELP.isdisjoint(own), only=_command_of(own))
        status = app(words, print_error=False, exit_on_error=False, result_action="return_value")
    except CycloptsError as error:
        raise usage_error(_one_line(error, words), hint=_help_for(words)) from error
    return status if isinstance(status, int) else OK


def _command_of(words: list[str]) -> str:
    """The command that a command line begins with; empty if there is none."""
    return next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), "")


def _one_line(error: CycloptsError, words: list[str]) -> str:
    if isinstance(error, RepeatArgumentError) and not _is_repeated(error.token.keyword or "", words):
        return f"{error.token.keyword} and its opposite are both given; give one of them"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"unexpected argument {error.unused_tokens[0][:80]!r}"
    return " ".join(str(error).split())


def _is_repeated(option: str, words: list[str]) -> bool:
    return sum(word == option or word.startswith(f"{option}=") for word in words) > 1


def _help_for(words: list[str]) -> str:
    known = _command_of(words) or (words[0] if words[0] in NOUNS else "")
    if known in _USAGE and "--" not in words:
        return f"put your command after --: sokovan {known} -- COMMAND; see sokovan {known} --help"
    return f"see sokovan {known} --help" if known else "see sokovan --help for all commands"
