"""The help screen of a command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from sokovan.cli.arguments.command_arguments import Argument, CommandArguments
from sokovan.cli.arguments.parameters import OptionGroup

_OPTIONS = OptionGroup("Options", sort_key=1)
_KINDS = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}


def command_help(command: CommandArguments, *, usage: str = "") -> str:
    """The help of a command: usage, text, arguments, and options by group."""
    parts = [usage or _usage(command), command.text]
    if command.positionals:
        parts.append(_section("Arguments", command.positionals))
    options = sorted((one for one in command.all if not one.positional), key=_order)
    parts += [_section(_group(found[0]).name, found) for _, each in groupby(options, _order) if (found := list(each))]
    return "\n\n".join(parts) + "\n"


def _group(one: Argument) -> OptionGroup:
    return one.group or _OPTIONS


def _order(one: Argument) -> tuple[int, str]:
    return _group(one).sort_key, _group(one).name


def _usage(command: CommandArguments) -> str:
    options = [one for one in command.all if not one.positional]
    words = [f"{one.name} {_value(one)}" for one in options if one.required]
    if any(not one.required for one in options):
        words.append("[OPTIONS]")
    words += [one.name for one in command.positionals if one.required]
    left = [one for one in command.positionals if not one.required]
    if left:
        words.append("[ARGS...]" if len(left) > 1 or left[0].type.repeated else "[ARGS]")
    return " ".join(["Usage: sokovan", command.words, *words])


def _section(title: str, arguments: Iterable[Argument]) -> str:
    return "\n".join([f"{title}:", *(f"  {_names(one)}: {_meaning(one)}".rstrip() for one in arguments)])


def _names(one: Argument) -> str:
    shown = ", ".join((*one.names, *one.negatives))
    return shown if one.positional or one.is_switch else f"{shown} {_value(one)}"


def _value(one: Argument) -> str:
    shown = "CHOICE" if one.type.choices else _KINDS[one.type.kind]
    return f"{shown}..." if one.type.repeated else shown


def _meaning(one: Argument) -> str:
    words: Sequence[str] = [
        one.help,
        f"[choices: {', '.join(one.type.choices)}]" if one.type.choices and one.show_choices else "",
        "[required]" if one.required else "",
    ]
    return " ".join(word for word in words if word)
