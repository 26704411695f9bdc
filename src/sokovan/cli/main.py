"""The `sokovan` command: asking what it can do costs no more than saying it."""

from __future__ import annotations

import os
import sys
from itertools import pairwise

from sokovan import __version__
from sokovan.cli.command_table import NOUNS, first_words, noun_overview, overview
from sokovan.cli.errors import CommandError, usage_error
from sokovan.cli.exit_codes import FAILED, INTERRUPTED, OK, USAGE, exit_code_of
from sokovan.cli.output import print_data, print_error, print_status


def main() -> None:
    """Entry point of the console script."""
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has enough of it; what is still buffered goes nowhere.
        _silence()
        status = FAILED
    except OSError as error:
        problem = CommandError(
            f"cannot write the output: {error.strerror or error}",
            code="unwritable-output",
            hint="see whether the disk is full or the other side has closed",
        )
        print_error(problem, json_too=False)
        _silence()
        status = FAILED
    if status:
        sys.exit(status)


def run(words: list[str]) -> int:
    """Run a command line; the status with which it ends."""
    if words in ([], ["-h"], ["--help"]):
        print_data(overview())
        return OK
    if words[0] in NOUNS and words[1:] in ([], ["-h"], ["--help"]):
        print_data(noun_overview(words[0]))
        return OK
    if words == ["--version"]:
        print_data(__version__)
        return OK
    if words[0] == "__complete":  # a shell asks, at every Tab; no help tells of it
        from sokovan.cli.completion.candidates import complete  # noqa: PLC0415  # nobody else needs it

        return complete(words[1:])
    if words[0] not in first_words() and not words[0].startswith("-"):
        print_error(_unknown(words[0]), json_too=wants_json(words))
        return USAGE
    from sokovan.cli.app import run_command  # noqa: PLC0415  # the parser takes longer to load than all of this

    try:
        return run_command(_with_standard_input(words))
    except KeyboardInterrupt:
        print_status("interrupted")
        return INTERRUPTED
    except OSError:  # commands tell of the files they read; what is left is our own output
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, it becomes a message and a status
        return _report(error, json_too=wants_json(words))


def wants_json(words: list[str]) -> bool:
    """Whether errors are for programs; it may be the parser that complains."""
    ours = words[: words.index("--")] if "--" in words else words
    if "--json" in ours or any(word in {"-ojson", "--output=json", "-o=json"} for word in ours):
        return True
    chosen = [value for option, value in pairwise(ours) if option in {"-o", "--output"}]
    return (chosen[-1] if chosen else os.environ.get("SOKOVAN_OUTPUT", "")) in {"json", "jsonl"}


def _report(error: Exception, *, json_too: bool) -> int:
    # api is not for errors: the client tells of its requests then.
    if set(os.environ.get("SOKOVAN_DEBUG", "").split(",")) - {"", "0", "api"}:
        import traceback  # noqa: PLC0415  # only for those who ask

        traceback.print_exception(error)
    if all(hasattr(error, name) for name in ("code", "message", "hint")):
        print_error(error, json_too=json_too)  # type: ignore[arg-type]  # just looked at
        return exit_code_of(error)
    problem = CommandError(
        f"{type(error).__name__}: {error}",
        code="internal",
        hint="this is a defect of sokovan; set SOKOVAN_DEBUG=1 and report what it prints",
    )
    print_error(problem, json_too=json_too)
    return FAILED


def _unknown(word: str) -> CommandError:
    from difflib import get_close_matches  # noqa: PLC0415  # only for those who mistype

    close = get_close_matches(word, first_words(), n=1)
    told = f"; did you mean {close[0]!r}?" if close else ""
    return usage_error(f"there is no command {word[:60]!r}{told}", hint="sokovan --help lists every command")


def _with_standard_input(words: list[str]) -> list[str]:
    """The parser takes a lone - for an option; what follows -- is not ours to change."""
    end = words.index("--") if "--" in words else len(words)
    return ["/dev/stdin" if word == "-" else word for word in words[:end]] + words[end:]


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
