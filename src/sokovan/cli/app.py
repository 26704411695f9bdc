"""Reads a command line and runs its command; no other command is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from sokovan import __version__
from sokovan.cli.arguments.argument_reader import END_OF_OPTIONS, read_arguments
from sokovan.cli.arguments.command_arguments import CommandArguments
from sokovan.cli.command_table import COMMANDS, NOUNS, overview
from sokovan.cli.errors import CommandError, usage_error
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data
from sokovan.cli.suggestions import suggested_command

_HELP = frozenset({"-h", "--help"})
_VERSION = "--version"
_LISTED_MAX = 8
# These take a user command after --, with options of its own.
_USAGE = {
    "run": "Usage: sokovan run [OPTIONS] -- COMMAND [ARGS...]",
    "plan": "Usage: sokovan plan [OPTIONS] -- COMMAND [ARGS...]",
    "exec": "Usage: sokovan exec [OPTIONS] NAME -- COMMAND [ARGS...]",
}


def run_command(words: list[str]) -> int:
    """Read and run a command line; return its exit code. Raises a usage error."""
    own = set(words[: words.index(END_OF_OPTIONS)] if END_OF_OPTIONS in words else words)
    if not own.isdisjoint(_HELP):
        print_data(overview() if words[0] in _HELP else help_of(_command_of(words)))
        return OK
    if _VERSION in own:
        print_data(__version__)
        return OK
    function, positional, keywords = parsed(words)
    status = function(*positional, **keywords)
    return status if isinstance(status, int) else OK


def parsed(words: Sequence[str]) -> tuple[Callable[..., Any], list[object], dict[str, object]]:
    """The function of a command line and its arguments. Raises a usage error."""
    name = _command_of(words)
    command = arguments_of(name)
    positional, keywords = read_arguments(command, words[name.count(" ") + 1 :], hint=_help_for(words))
    return command.function, positional, keywords


def arguments_of(name: str) -> CommandArguments:
    """The arguments of a command of the command table."""
    module, _, function = COMMANDS[name][0].partition(":")
    return CommandArguments(name, getattr(import_module(module), function))


def help_of(name: str) -> str:
    """The help screen of a command."""
    from sokovan.cli.arguments.command_help import command_help  # noqa: PLC0415  # commands do not need it

    return command_help(arguments_of(name), usage=_USAGE.get(name, ""))


def _command_of(words: Sequence[str]) -> str:
    """The command that a command line begins with. Raises a usage error."""
    found = next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), "")
    if not found:
        raise _unknown_command(words)
    return found


def _unknown_command(words: Sequence[str]) -> CommandError:
    is_noun = words[0] in NOUNS
    word = words[1] if is_noun and len(words) > 1 else words[0]
    first = f"{words[0]} " if is_noun else ""
    known = [name.removeprefix(first) for name in COMMANDS if name.startswith(first)]
    meant = suggested_command(word, known)
    suggestion = f' Did you mean "{meant}"?' if meant else ""
    listed = ", ".join([*known[:_LISTED_MAX], *(["..."] if len(known) > _LISTED_MAX else [])])
    problem = f'Unknown command "{word[:60]}".{suggestion} Available commands: {listed}'
    return usage_error(problem, hint=_help_for(words))


def _help_for(words: Sequence[str]) -> str:
    known = next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS or name in NOUNS), "")
    if known in _USAGE and END_OF_OPTIONS not in words:
        return f"put your command after --: sokovan {known} -- COMMAND; see sokovan {known} --help"
    return f"see sokovan {known} --help" if known else "see sokovan --help for all commands"
