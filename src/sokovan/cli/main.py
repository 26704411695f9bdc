"""The `sokovan` command: asking what it can do costs no more than saying it."""

from __future__ import annotations

import sys

from sokovan import __version__
from sokovan.cli.output import say

# What `sokovan --help` says of each command. The parser itself takes longer to load than all of this.
COMMANDS = {
    "simulate": "Try a policy before you apply it: run scenario files through the core.",
}


def main() -> None:
    """Entry point of the console script."""
    asked = sys.argv[1:]
    if asked in ([], ["-h"], ["--help"]):
        say(overview())
    elif asked == ["--version"]:
        say(__version__)
    else:
        from sokovan.cli.app import app  # noqa: PLC0415  # see COMMANDS

        sys.exit(app(asked))


def overview() -> str:
    """What `sokovan --help` prints."""
    commands = [f"  {name:12}{summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: sokovan COMMAND [OPTIONS]",
            "",
            "An orchestrator for AI compute.",
            "",
            "Commands:",
            *commands,
            "",
            "Options:",
            "  -h, --help  Show this, or the help of a command: sokovan simulate --help",
            "  --version   Show the version.",
            "",
            "Example:",
            "  sokovan simulate cluster.yaml --explain",
        ]
    )
