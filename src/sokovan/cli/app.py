"""The commands, as the argument parser sees them; each loads when it runs."""

from __future__ import annotations

from cyclopts import App, CycloptsError, Parameter

from sokovan import __version__
from sokovan.cli.command_table import COMMANDS, NOUNS
from sokovan.cli.errors import usage_error
from sokovan.cli.exit_codes import OK

# After them stands a command with options of its own.
_TAKE_COMMANDS = frozenset({"run", "plan", "exec"})


def make_app() -> App:
    """The parser with every command of the catalogue."""
    app = App(
        name="sokovan",
        version=__version__,
        help="An orchestrator for AI compute.",
        help_format="plaintext",
        help_formatter="plain",
        default_parameter=Parameter(show_default=False),
        suppress_keyboard_interrupt=False,
    )
    above = {"": app} | {name: App(name=name, help=meaning) for name, meaning in NOUNS.items()}
    for name in NOUNS:
        app.command(above[name])
    for words, (place, _) in COMMANDS.items():
        noun, _, verb = words.rpartition(" ")
        above[noun].command(place, name=verb)
    return app


def run_command(words: list[str]) -> int:
    """Run a command line; its status. Raises what the command raises."""
    try:
        status = make_app()(words, print_error=False, exit_on_error=False, result_action="return_value")
    except CycloptsError as error:
        raise usage_error(_sentence(error), hint=_help_for(words)) from error
    return status if isinstance(status, int) else OK


def _sentence(error: CycloptsError) -> str:
    return " ".join(str(error).split())


def _help_for(words: list[str]) -> str:
    two, one = " ".join(words[:2]), words[0]
    known = two if two in COMMANDS else one if one in COMMANDS or one in NOUNS else ""
    if known in _TAKE_COMMANDS and "--" not in words:
        return f"options of your command go after --: sokovan {known} -- COMMAND; see sokovan {known} --help"
    return f"see sokovan {known} --help" if known else "sokovan --help lists every command"
