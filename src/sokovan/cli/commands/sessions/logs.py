"""`sokovan logs`: the output of a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_SERVER, Flag, ServerOptions
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


def logs(
    name: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=())] = False,
    tail: int | None = None,
    kernel: int | None = None,
    prefix: Flag = False,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Print the output of a session.

    With several kernels, each line is prefixed with the index of its kernel:
    [2].

    For example:
      sokovan logs ddp
      sokovan logs ddp -f --kernel 2
      sokovan logs ddp --tail 100 --prefix

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    follow
        Follow the output until the session ends.
    tail
        Print only the last N lines of each kernel.
    kernel
        Print only this kernel, counted from 0.
    prefix
        Prefix every line with the kernel's index, even for a single kernel.
    """
    for option, value in (("--tail", tail), ("--kernel", kernel)):
        if value is not None and value < 0:
            raise InvalidSetting(f"{option} {value} is negative", hint="use 0 or more")
    with server.client() as client:
        options, several = LogOptions(follow=follow, tail=tail, kernel=kernel), False
        if kernel is None or follow:
            view = client.sessions.get(name)
            if kernel is None:
                options, several = options.of(view), view.size > 1
            if follow and view.status == PENDING:
                print_status(f"{view.name} is PENDING; waiting for its start, see sokovan why {view.name}")
        pieces = follow_log(client.sessions, name, options) if follow else client.sessions.logs(name, options)
        print_log(pieces, prefixed=prefix or several)
    return OK


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


def print_log(pieces: Iterable[LogPiece], *, prefixed: bool) -> None:
    """Print pieces as they arrive: unchanged, or line by line with the kernel's index."""
    reader = LineReader()
    try:
        for piece in pieces:
            if prefixed:
                _print_lines(reader.feed(piece))
            else:
                print_bytes(piece.content)
    finally:  # also after Ctrl-C, so that an unfinished line is printed
        _print_lines(reader.close())


def _print_lines(lines: Iterable[LogLine]) -> None:
    for line in lines:
        print_bytes(b"[%d] %s\n" % (line.kernel, line.content))
