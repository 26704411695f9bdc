"""The options of a command, from the parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from sokovan.cli.app import make_app


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
    app = make_app()
    for word in command.split():
        app = app[word]
    found: dict[str, CommandOption] = {}
    for one in app.assemble_argument_collection(parse_docstring=True):
        if one.index is None and not one.children:
            text = " ".join((one.parameter.help or "").split())
            option = CommandOption(one.name, one.token_count()[0] > 0, tuple(one.get_choices() or ()), text)
            found |= dict.fromkeys(one.names, option)
    return found | {"--help": CommandOption("--help", takes_value=False, help="Show the help of the command.")}
