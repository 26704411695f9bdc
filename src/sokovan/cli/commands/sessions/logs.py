"""`sokovan logs`: the output of a session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_SERVER, ServerOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_bytes, print_status
from sokovan.sdk.core.states import is_final
from sokovan.sdk.core.streams.followers import LogOptions, LogPiece
from sokovan.sdk.core.streams.log_lines import LineReader, LogLine
from sokovan.sdk.errors import ClientProblem, InvalidSetting

if TYPE_CHECKING:
    from sokovan.sdk.sync.sessions import Sessions

UNREACHABLE_AGENT = "agent-unreachable"
PENDING = "pending"
# Kernels whose output a server sends together.
KERNELS_MAX = 256
_INDEXES = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", re.ASCII)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """The lines to print, and how."""

    kernel: Annotated[str | None, Parameter(help="Print only this kernel, counted from 0, or these: 0-3,7.")] = None
    search: Annotated[str, Parameter(help="Print only lines with this text, in upper or lower case.")] = ""
    prefix: Annotated[
        bool, Parameter(negative=(), help="Prefix every line with the kernel's index, even for a single kernel.")
    ] = False


ALL_LINES = LineOptions()


def logs(
    name: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=())] = False,
    tail: int | None = None,
    lines: LineOptions = ALL_LINES,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Print the output of a session.

    Of several kernels, the lines of all are printed as they come, each
    prefixed with the index of its kernel: [2].

    For example:
      sokovan logs ddp
      sokovan logs ddp -f --kernel 2
      sokovan logs ddp -f --kernel 0-3,7 --search loss
      sokovan logs ddp --tail 100 --prefix

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    follow
        Follow the output until the session ends.
    tail
        Print only the last N lines of each kernel.
    """
    if tail is not None and tail < 0:
        raise InvalidSetting(f"--tail {tail} is negative", hint="use 0 or more")
    kernels = None if lines.kernel is None else read_kernels(lines.kernel)
    with server.client() as client:
        options, several = LogOptions(follow=follow, tail=tail, kernel=kernels), len(kernels or ()) > 1
        if kernels is None or follow:
            view = client.sessions.get(name)
            if kernels is None:
                options, several = options.of(view), view.size > 1
            if follow and view.status == PENDING:
                print_status(f"{view.name} is PENDING; waiting for its start, see sokovan why {view.name}")
        pieces = follow_log(client.sessions, name, options) if follow else client.sessions.logs(name, options)
        print_log(pieces, prefixed=lines.prefix or several, search=lines.search)
    return OK


def read_kernels(text: str) -> tuple[int, ...]:
    """Indexes of kernels: 2, or 0-3,7. Raises InvalidSetting.

    >>> read_kernels("0-3,7")
    (0, 1, 2, 3, 7)
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _INDEXES.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise InvalidSetting(f"--kernel {text[:60]!r} names no kernels", hint="use 2, or 0-3,7")
        found.update(dict.fromkeys(range(first, min(last, first + KERNELS_MAX) + 1)))
    if len(found) > KERNELS_MAX:
        hint = f"name at most {KERNELS_MAX} kernels"
        raise InvalidSetting(f"--kernel {text[:60]}: more than {KERNELS_MAX} kernels", hint=hint)
    return tuple(found)


def follow_log(sessions: Sessions, ref: str, options: LogOptions) -> Iterator[LogPiece]:
    """Follow the output; an unreachable agent is retried until the session ends."""
    seen, reported = dict(options.seen), set[str]()

    def report(problem: ClientProblem) -> None:
        if problem.code == UNREACHABLE_AGENT and problem.code not in reported:
            print_status(f"{problem.message}; retrying until the session ends")
        reported.add(problem.code)

    while True:
        try:
            for piece in sessions.logs(ref, replace(options, seen=seen), on_retry=report):
                seen[piece.kernel] = piece.offset + len(piece.content)
                yield piece
        except ClientProblem as problem:
            if problem.code != UNREACHABLE_AGENT or is_final(sessions.get(ref)):
                raise
        else:
            return


def print_log(pieces: Iterable[LogPiece], *, prefixed: bool, search: str = "") -> None:
    """Print pieces as they arrive: unchanged, or the lines with a text."""
    reader = LineReader()

    def print_lines(lines: Iterable[LogLine]) -> None:
        for line in lines:
            if search.casefold() in line.text.casefold():
                print_bytes(b"[%d] %s\n" % (line.kernel, line.content) if prefixed else line.content + b"\n")

    try:
        for piece in pieces:
            if prefixed or search:
                print_lines(reader.feed(piece))
            else:
                print_bytes(piece.content)
    finally:  # also after Ctrl-C, so that an unfinished line is printed
        print_lines(reader.close())
