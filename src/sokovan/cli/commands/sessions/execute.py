"""`sokovan exec`: run a command inside a running session."""

from __future__ import annotations

import sys
from typing import Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_SERVER, ServerOptions
from sokovan.cli.commands.sessions.terminal import forward_streams, terminal_size
from sokovan.cli.errors import ClientFailure
from sokovan.sdk.errors import ClientProblem, InvalidSetting


def execute(
    name: str,
    /,
    *command: str,
    kernel: int = 0,
    interactive: Annotated[bool, Parameter(name=["--interactive", "-i"], negative=())] = False,
    terminal: Annotated[bool, Parameter(name=["--terminal", "-t"], negative=())] = False,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Run a command inside a running session.

    Exits with the exit code of the command, or with 125 if sokovan itself
    failed, 127 if the program was not found.

    For example:
      sokovan exec ddp -- nvidia-smi
      sokovan exec -it ddp --kernel 2 -- bash
      tar c . | sokovan exec -i ddp -- tar x -C /tmp

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    command
        Command and arguments, after --. Not interpreted by a shell.
    kernel
        Kernel to run it in, counted from 0.
    interactive
        Pass standard input to the command.
    terminal
        Allocate a terminal.
    """
    if not command:
        raise InvalidSetting("no command given", hint=f"put it after --: sokovan exec {name} -- ls")
    if kernel < 0:
        raise InvalidSetting(f"--kernel {kernel} is negative", hint="kernels are counted from 0")
    if terminal and not sys.stdin.isatty():
        raise InvalidSetting("standard input is not a terminal", hint="leave out -t")
    size = terminal_size() if terminal else None
    try:
        with (
            server.client() as client,
            client.kernels.exec(name, command, kernel=kernel, terminal=size) as execution,
        ):
            return forward_streams(execution, forward=interactive, raw=terminal and interactive) & 0xFF
    except ClientProblem as problem:
        raise ClientFailure(problem) from problem
