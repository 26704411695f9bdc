"""`sokovan cp` and `sokovan session files`: files of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sokovan.cli import formatting
from sokovan.cli.commands.options import DEFAULT_SERVER, TABLE_OUTPUT, OutputOptions, ServerOptions
from sokovan.cli.commands.uploads import TransferProgress
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_status
from sokovan.cli.rendering import Column, show_all
from sokovan.sdk.errors import ClientProblem, InvalidSetting
from sokovan.wire.api.files import OUTPUT, FileView, OutputView

if TYPE_CHECKING:
    from sokovan.sdk.local_files import CopyResult
    from sokovan.sdk.sync.client import Client

NO_FILES = "file-not-found"


def cp(source: str, target: str, /, *, kernel: int = 0, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Copy files between this machine and a session.

    One of the paths is SESSION:PATH. A relative PATH is in the session's
    working directory; output/... is what is kept after the session's end;
    ./output is a folder of that name. Folders are copied with all they
    contain; links and devices in a session are left out.

    For example:
      sokovan cp ddp:checkpoints/last.pt .
      sokovan cp ddp:output results
      sokovan cp --kernel 2 data ddp:data

    Parameters
    ----------
    source
        File or folder to copy: PATH or SESSION:PATH.
    target
        Where to copy it; into it, if that is a folder.
    kernel
        Kernel of the session, counted from 0.
    """
    if kernel < 0:
        raise InvalidSetting(f"--kernel {kernel} is negative", hint="kernels are counted from 0")
    origin, goal = remote_path(source), remote_path(target)
    if (origin is None) == (goal is None):
        raise InvalidSetting(
            "exactly one of the two paths must be in a session",
            hint="write it SESSION:PATH; a local path with a colon begins with ./",
        )
    progress = TransferProgress(f"copying {source}")
    with server.client() as client:
        if origin is not None:
            done = client.files.download(origin[0], origin[1], target, kernel=kernel, progress=progress)
            _report(source, done, done.target)
        elif goal is not None:
            done = client.files.upload(source, goal[0], goal[1], kernel=kernel, progress=progress)
            _report(source, done, f"{goal[0]}:{done.target}")
    return OK


def remote_path(text: str) -> tuple[str, str] | None:
    """Session and path of SESSION:PATH; None for a local path.

    >>> remote_path("ddp:a/b"), remote_path("./x:y"), remote_path("data")
    (('ddp', 'a/b'), None, None)
    """
    session, colon, path = text.partition(":")
    return (session, path) if colon and session and "/" not in session else None


def _report(source: str, done: CopyResult, target: str) -> None:
    count = "1 file" if done.files == 1 else f"{done.files} files"
    print_status(f"copied {source} to {target}: {count}, {formatting.amount('mem', done.size)}")
    if done.left_out:
        named = ", ".join(done.left_out_names)
        print_status(f"{done.left_out} were left out, because they are no regular files: {named}")


def files(name: str, path: str = OUTPUT, /, *, kernel: int | None = None, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List files of a session.

    By default those that it wrote to $SOKOVAN_OUTPUT, which are kept after its
    end. Copy them with `sokovan cp SESSION:output/...`.

    For example:
      sokovan session files ddp
      sokovan session files ddp --json
      sokovan session files ddp . --kernel 2

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    path
        Folder to list; . is the working directory of a running session.
    kernel
        List only this kernel, counted from 0.
    """
    if kernel is not None and kernel < 0:
        raise InvalidSetting(f"--kernel {kernel} is negative", hint="kernels are counted from 0")
    fmt = output.format()
    with output.client() as client:
        view = client.sessions.get(name)
        kernels = [kernel] if kernel is not None else list(range(view.size))
        found, kept = _listed(client, view.id, path, kernels)
    show_all(found, _columns(several=len(kernels) > 1), fmt, name=lambda one: one.path)
    for line in kept:
        print_status(line)
    return OK


def _columns(*, several: bool) -> list[Column[FileView]]:
    columns: list[Column[FileView]] = [
        Column("kernel", lambda one: str(one.kernel), wide=not several),
        Column("path", lambda one: one.path),
        Column("size", lambda one: formatting.amount("mem", one.size)),
        Column("modified", lambda one: one.modified_at),
        Column("until", lambda one: formatting.or_none(one.kept_until), wide=True),
    ]
    return columns


def _listed(client: Client, ref: str, path: str, kernels: list[int]) -> tuple[list[FileView], list[str]]:
    """The files of these kernels, and what to say about their output.

    Of several kernels, one without output is no error.
    """
    found: list[FileView] = []
    said: dict[str, None] = {}
    for index in kernels:
        try:
            for page in client.files.pages(ref, path, kernel=index):
                found += page.items
                if page.output is not None and page.next is None:
                    said |= dict.fromkeys(_kept(page.output))
        except ClientProblem as problem:
            if problem.code != NO_FILES or path != OUTPUT:
                raise
            said[problem.message] = None
    return found, list(said)


def _kept(output: OutputView) -> list[str]:
    size = formatting.amount
    until = f"kept until {output.kept_until}" if output.kept_until else "kept after the end of the session"
    used = f"{size('mem', output.owner_bytes)} of {size('mem', output.owner_bytes_max)}"
    lines = [f"{until}; limit of a session {size('mem', output.session_bytes_max)}, its owner uses {used} on the agent"]
    if output.dropped_files:
        lines.append(
            f"{output.dropped_files} older files, {size('mem', output.dropped_bytes)}, were not kept:"
            " the output was larger than a session may keep"
        )
    return lines
