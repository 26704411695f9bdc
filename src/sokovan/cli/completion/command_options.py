"""The options of a command, from its signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from sokovan.cli.app import arguments_of


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option, under the first of its names."""

    name: str
    takes_value: bool
    choices: tuple[str, ...] = ()
    help: str = ""


@cache
def command_options(command: str) -> Mapping[str, CommandOption]:
    """The options of a command, by each of their names."""
    found: dict[str, CommandOption] = {}
    for one in arguments_of(command).all:
        if not one.positional:
            option = CommandOption(one.name, not one.is_switch, one.type.choices, one.help)
            found |= dict.fromkeys((*one.names, *one.negatives), option)
    return found | {"--help": CommandOption("--help", takes_value=False, help="Show the help of the command.")}
