"""The command line: every command with its options, as `--help` prints them."""

from __future__ import annotations

import io

from rich.console import Console

from sokovan.cli.app import make_app
from sokovan.cli.command_table import COMMANDS

INTRODUCTION = """\
# Commands

Data goes to standard output, messages to standard error. `sokovan help exit-codes`, `help environment`,
`help formatting` and `help spec` apply to all commands.

"""
WIDTH = 130


def page() -> str:
    """The page of all commands, each with its help."""
    app = make_app()
    parts = []
    for words in COMMANDS:
        text = io.StringIO()
        app.help_print(words.split(), console=Console(file=text, width=WIDTH, no_color=True, force_terminal=False))
        shown = "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())
        parts.append(f"## sokovan {words}\n\n```text\n{shown}\n```\n")
    return INTRODUCTION + "\n".join(parts)
