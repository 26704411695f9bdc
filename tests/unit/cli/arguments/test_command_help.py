"""Help screens."""

from __future__ import annotations

from sokovan.cli.arguments.command_arguments import CommandArguments
from sokovan.cli.arguments.command_help import command_help
from tests.unit.cli.arguments import commands

SUBMIT = """\
Usage: sokovan submit [OPTIONS] NAME [ARGS...]

Submit something.

More about it.

Arguments:
  NAME: Name of it, in one word. [required]
  COMMAND:

Options:
  --all, -a:
  --watch, -w:
  --label, -l STR...:
  --size, -n INT: How large it is.
  --open, --closed:
  --sort CHOICE: [choices: age, -age]
  --by-queue CHOICE: [choices: yes, no]
  --wait FLOAT:
  --keep, --no-keep:
  --file PATH:
  --kernels INT...:

Common options:
  --url STR: Server.
  --json: Print JSON.
"""


def test_every_kind_of_argument_is_shown() -> None:
    assert command_help(CommandArguments("submit", commands.submit)) == SUBMIT


def test_required_options_and_optional_arguments_are_in_the_usage() -> None:
    shown = command_help(CommandArguments("book", commands.book))
    assert shown.startswith("Usage: sokovan book --from STR [OPTIONS] [ARGS]\n\nBook something.\n\n")
    assert "  --from STR: Beginning. [required]\n" in shown


def test_a_usage_of_its_own_replaces_the_line() -> None:
    shown = command_help(CommandArguments("book", commands.book), usage="Usage: book it")
    assert shown.startswith("Usage: book it\n")
