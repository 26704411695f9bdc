"""The command line: every command with its options, as `--help` prints them."""

from __future__ import annotations

from sokovan.cli.app import help_of
from sokovan.cli.command_table import COMMANDS

INTRODUCTION = """\
# Commands

Data goes to standard output, messages to standard error. `sokovan help exit-codes`, `help environment`,
`help formatting` and `help spec` apply to all commands.

"""


def page() -> str:
    """The page of all commands, each with its help."""
    parts = [f"## sokovan {words}\n\n```text\n{help_of(words).strip()}\n```\n" for words in COMMANDS]
    return INTRODUCTION + "\n".join(parts)
