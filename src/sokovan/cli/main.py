"""The `sokovan` command: asking what it can do costs no more than saying it."""

from __future__ import annotations

import os
import sys

from sokovan import __version__
from sokovan.cli.output import complain, say
from sokovan.domain.errors import SokovanError

# What `sokovan --help` says of each command. The parser itself takes longer to load than all of this.
COMMANDS = {
    "audit": "Check that the store keeps its laws: nothing is lost, doubled or half done.",
    "db": "Look at the schema of the store, or bring it up to date.",
    "simulate": "Try a policy before you apply it: run scenario files through the core.",
}


class UnwritableOutput(SokovanError):
    """What a command says could not be written."""

    code = "unwritable-output"
    hint = "see whether the disk is full or the other side has closed"


def main() -> None:
    """Entry point of the console script."""
    try:
        _run(["/dev/stdin" if argument == "-" else argument for argument in sys.argv[1:]])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has enough of it; what is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        complain(UnwritableOutput(f"cannot write the output: {error.strerror or error}"), json_too=False)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _run(asked: list[str]) -> None:
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
