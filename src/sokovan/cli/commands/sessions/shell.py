"""`sokovan shell`: a shell in a session."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from sokovan.cli.commands.options import DEFAULT_SERVER, ServerOptions
from sokovan.cli.commands.sessions.interrupts import stop_signals
from sokovan.cli.commands.sessions.session_options import NO_FLAGS, SessionFlags
from sokovan.cli.commands.sessions.terminal import forward_streams, terminal_size
from sokovan.cli.commands.uploads import folder_of, with_folder
from sokovan.cli.errors import ClientFailure
from sokovan.cli.output import print_status
from sokovan.sdk.errors import ClientProblem, InvalidSetting

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

START_TIMEOUT_S = 300.0


def shell(
    session: str | None = None,
    /,
    *,
    program: str = "/bin/sh",
    flags: SessionFlags = NO_FLAGS,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Open a shell in a new or a running session.

    Without a name, starts an interactive session with the given options and
    stops it when the shell exits. Exits with the exit code of the shell, or 125
    if sokovan itself failed.

    For example:
      sokovan shell
      sokovan shell --gpus 1 --program bash
      sokovan shell ddp

    Parameters
    ----------
    session
        Name or ID of a running session, or a unique prefix of one.
    program
        Shell to run; default: /bin/sh.
    """
    if flags.file is not None:
        raise InvalidSetting(
            "a shell cannot be started from a file", hint="start the session with run -d -f, then pass its name"
        )
    [body] = flags.bodies([], server.settings())
    try:
        with server.client() as client:
            if session is not None:
                return _open(client, session, program)
            body = with_folder(body, client, upload=flags.upload, workdir=flags.workdir, beside=folder_of(flags.file))
            view = client.sessions.submit(replace(body, type="interactive"))
            print_status(f"{view.name}  {view.status.upper()}")
            with stop_signals():
                try:
                    client.sessions.wait(view.id, "RUNNING", timeout=START_TIMEOUT_S)
                    return _open(client, view.id, program)
                finally:
                    client.sessions.stop(view.id)
    except ClientProblem as problem:
        raise ClientFailure(problem) from problem


def _open(client: Client, ref: str, program: str) -> int:
    has_terminal = sys.stdin.isatty()
    size = terminal_size() if has_terminal else None
    with client.kernels.exec(ref, [program], terminal=size) as execution:
        return forward_streams(execution, forward=True, raw=has_terminal) & 0xFF
