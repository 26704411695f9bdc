"""`sokovan logs`: what a session said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sokovan.cli.commands.options import DEFAULT_SERVER, Flag, ServerOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_bytes, print_status
from sokovan.sdk.core.followers import LogOptions, LogPiece
from sokovan.sdk.core.log_lines import LineReader, LogLine
from sokovan.sdk.core.states import is_final
from sokovan.sdk.errors import ClientProblem, InvalidSetting

if TYPE_CHECKING:
    from sokovan.sdk.sync.sessions import Sessions

UNREACHABLE_AGENT = "agent-unreachable"


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
    """Print what a session said.

    The lines of a session with several kernels begin with their rank: [2].

    For example:
      sokovan logs ddp
      sokovan logs ddp -f --kernel 2
      sokovan logs ddp --tail 100 --prefix

    Parameters
    ----------
    name
        Its name or id, or the beginning of one.
    follow
        Go on until the session ends.
    tail
        Only the last lines of each kernel.
    kernel
        Only this kernel; they are counted from 0.
    prefix
        Begin every line with the rank, even where there is one kernel only.
    """
    for option, value in (("--tail", tail), ("--kernel", kernel)):
        if value is not None and value < 0:
            raise InvalidSetting(f"{option} {value} is less than nothing", hint="write 0 or more")
    with server.client() as client:
        wish, several = LogOptions(follow=follow, tail=tail, kernel=kernel), False
        if kernel is None:
            view = client.sessions.get(name)
            wish, several = wish.of(view), view.size > 1
        pieces = followed(client.sessions, name, wish) if follow else client.sessions.logs(name, wish)
        print_log(pieces, prefixed=prefix or several)
    return OK


def followed(sessions: Sessions, ref: str, wish: LogOptions) -> Iterator[LogPiece]:
    """The output until its end.

    A machine that does not answer is asked again for as long as the session goes on.
    """
    seen, told = dict(wish.seen), set[str]()

    def tell(problem: ClientProblem) -> None:
        if problem.code == UNREACHABLE_AGENT and problem.code not in told:
            print_status(f"{problem.message}; trying again until the session ends")
        told.add(problem.code)

    while True:
        try:
            for piece in sessions.logs(ref, replace(wish, seen=seen), on_retry=tell):
                seen[piece.kernel] = piece.offset + len(piece.content)
                yield piece
        except ClientProblem as problem:
            if problem.code != UNREACHABLE_AGENT or is_final(sessions.get(ref)):
                raise
        else:
            return


def print_log(pieces: Iterable[LogPiece], *, prefixed: bool) -> None:
    """Print pieces as they come: byte for byte, or each line behind its rank."""
    reader = LineReader()
    try:
        for piece in pieces:
            if prefixed:
                _say_lines(reader.feed(piece))
            else:
                print_bytes(piece.content)
    finally:  # also what stands before Ctrl-C
        _say_lines(reader.close())


def _say_lines(lines: Iterable[LogLine]) -> None:
    for line in lines:
        print_bytes(b"[%d] %s\n" % (line.kernel, line.content))
