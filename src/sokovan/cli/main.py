"""Entry point of the `sokovan` command; help screens load no command."""

from __future__ import annotations

import errno
import os
import re
import sys
from itertools import pairwise

from sokovan import __version__
from sokovan.cli.command_table import DEFAULT_VERBS, NOUNS, first_words, noun_overview, overview
from sokovan.cli.errors import CommandError, usage_error
from sokovan.cli.exit_codes import CLIENT_FAILURE, FAILED, INTERRUPTED, OK, USAGE, exit_code_of
from sokovan.cli.output import print_data, print_error, print_status
from sokovan.cli.suggestions import suggested_command

_NEGATIVE = re.compile(r"-[0-9].*")
_HELPS = ("-h", "--help")
# The values of options that may be given without one.
_DEFAULT_VALUES = {"--upload": ".", "--hold": "user"}


def _complete(words: list[str]) -> int:
    from sokovan.cli.completion.candidates import complete  # noqa: PLC0415  # loads only here

    return complete(words)


def _toy_engine(words: list[str]) -> int:
    from sokovan.engines.toy import main as serve  # noqa: PLC0415  # loads only here

    return serve(words)


def _proxy(words: list[str]) -> int:
    from sokovan.cli.proxy_start import plain_proxy  # noqa: PLC0415  # loads only here

    try:
        return plain_proxy(words)
    except Exception as error:  # noqa: BLE001  # the server logs the message
        return _report(error, as_object=False)


# Called by programs, not in the help, and without the parser: by the shell's completion script at every Tab, as the
# engine of replicas, and as the proxy of a server.
_FOR_PROGRAMS = {"__complete": _complete, "__toy-engine": _toy_engine, "__proxy": _proxy}

# Commands whose exit code is that of the user's command, unless sokovan itself failed.
_ATTACHED = frozenset({"run", "exec", "shell"})
_DETACHES = frozenset({"-d", "--detach"})

# Errors of writing to standard output.
_OF_OUTPUT = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG})


def main() -> None:
    """Entry point of the console script."""
    _replace_closed_streams()
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe: discard the rest, so that flushing at exit does not fail again.
        _discard_output()
        status = _unwritten(sys.argv[1:])
    except OSError as error:
        problem = CommandError(
            f"cannot write to standard output: {error.strerror or error}",
            code="unwritable-output",
            hint="check whether the disk is full",
        )
        print_error(problem, as_object=False)
        _discard_output()
        status = _unwritten(sys.argv[1:])
    if status:
        sys.exit(status)


def run(words: list[str]) -> int:
    """Run a command line and return its exit code."""
    if words in ([], ["-h"], ["--help"]):
        print_data(overview())
        return OK
    words = _with_verb(words)
    if words[0] in NOUNS and words[1:] in ([], ["-h"], ["--help"]):
        print_data(noun_overview(words[0]))
        return OK
    if words == ["--version"]:
        print_data(__version__)
        return OK
    if words[0] in _FOR_PROGRAMS:
        return _FOR_PROGRAMS[words[0]](words[1:])
    if words[0] not in first_words() and not words[0].startswith("-"):
        print_error(_unknown_command(words[0]), as_object=wants_json(words))
        return USAGE
    from sokovan.cli.app import run_command  # noqa: PLC0415  # help screens do not need it

    try:
        return run_command(_with_default_values(_readable(words)))
    except KeyboardInterrupt:
        print_status("interrupted")
        return INTERRUPTED
    except Exception as error:  # every error becomes a message and an exit code
        if isinstance(error, OSError) and error.errno in _OF_OUTPUT:
            raise  # commands report errors of the files that they write
        return _report(error, as_object=wants_json(words))


def _unwritten(words: list[str]) -> int:
    """The exit code of a command whose output could not be written.

    >>> _unwritten(["ps"]), _unwritten(["run", "--", "make"]), _unwritten(["run", "-d", "--", "make"])
    (1, 125, 1)
    """
    own = words[: words.index("--")] if "--" in words else words
    return CLIENT_FAILURE if _ATTACHED.intersection(own[:1]) and not _DETACHES.intersection(own) else FAILED


def wants_json(words: list[str]) -> bool:
    """Whether errors are printed as JSON; decided without the parser, which may fail."""
    own = words[: words.index("--")] if "--" in words else words
    if "--json" in own or any(word in {"-ojson", "--output=json", "-o=json"} for word in own):
        return True
    given = [value for option, value in pairwise(own) if option in {"-o", "--output"}]
    return (given[-1] if given else os.environ.get("SOKOVAN_FORMAT", "")) in {"json", "jsonl"}


def _report(error: Exception, *, as_object: bool) -> int:
    # "api" logs requests and does not ask for tracebacks.
    if set(os.environ.get("SOKOVAN_DEBUG", "").split(",")) - {"", "0", "api"}:
        import traceback  # noqa: PLC0415  # only for debugging

        traceback.print_exception(error)
    if isinstance(error, UnicodeEncodeError) and error.encoding == "utf-8":
        # An argument or variable with other bytes; nothing was sent, since it cannot be encoded.
        error = usage_error(
            f"a value is not UTF-8 text: {error.object[:60]!a}", hint="give arguments and variables in UTF-8"
        )
    if all(hasattr(error, name) for name in ("code", "message", "hint")):
        print_error(error, as_object=as_object)  # type: ignore[arg-type]  # checked above
        return exit_code_of(error)
    problem = CommandError(
        f"{type(error).__name__}: {error}",
        code="internal",
        hint="this is a bug in sokovan; set SOKOVAN_DEBUG=1 and report the output",
    )
    print_error(problem, as_object=as_object)
    return FAILED


def _unknown_command(word: str) -> CommandError:
    meant = suggested_command(word, first_words())
    suggestion = f"; did you mean {meant!r}?" if meant else ""
    return usage_error(f"unknown command {word[:60]!r}{suggestion}", hint="see sokovan --help for all commands")


def _readable(words: list[str]) -> list[str]:
    """Rewrite values that the parser takes for options; words after -- stay as they are.

    A lone - is standard input, and -1GiB after an option is its value.
    """
    end = words.index("--") if "--" in words else len(words)
    found: list[str] = []
    for word in words[:end]:
        if found and _NEGATIVE.fullmatch(word) and found[-1].startswith("--") and "=" not in found[-1]:
            found[-1] += f"={word}"
        else:
            found.append("/dev/stdin" if word == "-" else word)
    return found + words[end:]


def _with_verb(words: list[str]) -> list[str]:
    """Add the command that a noun with options stands for.

    >>> _with_verb(["server", "--config", "x.toml"])
    ['server', 'run', '--config', 'x.toml']
    """
    verb = DEFAULT_VERBS.get(words[0])
    if verb is None or len(words) == 1 or words[1] in _HELPS or not words[1].startswith("-"):
        return words
    return [words[0], verb, *words[1:]]


def _with_default_values(words: list[str]) -> list[str]:
    """Give options without a value their default; the parser knows no optional values.

    >>> _with_default_values(["run", "--upload", "--", "ls", "--upload"])
    ['run', '--upload', '.', '--', 'ls', '--upload']
    """
    end = words.index("--") if "--" in words else len(words)
    own: list[str] = []
    for index, word in enumerate(words[:end]):
        own.append(word)
        if word in _DEFAULT_VALUES and (index + 1 == end or words[index + 1].startswith("-")):
            own.append(_DEFAULT_VALUES[word])
    return own + words[end:]


def _replace_closed_streams() -> None:
    """Discard what is written to a stream that the caller has closed: `sokovan ps >&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
