"""`sokovan exec`: a command inside a running session."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from sokovan.cli.commands.options import DEFAULT_SERVER, ServerOptions
from sokovan.cli.commands.sessions.terminal import converse, terminal_size
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

    Its exit status is ours; 125: sokovan itself failed; 127: there is no such program.

    For example:
      sokovan exec ddp -- nvidia-smi
      sokovan exec -it ddp --kernel 2 -- bash
      tar c . | sokovan exec -i ddp -- tar x -C /tmp

    Parameters
    ----------
    name
        The session's name or id, or the beginning of one.
    command
        The command and its words, after --. No shell reads them.
    kernel
        In which kernel; they are counted from 0.
    interactive
        Send our input to it.
    terminal
        Give it a terminal.
    """
    if not command:
        raise InvalidSetting("there is no command to run", hint=f"write it after --: sokovan exec {name} -- ls")
    if kernel < 0:
        raise InvalidSetting(f"--kernel {kernel} is less than nothing", hint="kernels are counted from 0")
    if terminal and not sys.stdin.isatty():
        raise InvalidSetting("there is no terminal here to give it", hint="leave out -t")
    size = terminal_size() if terminal else None
    try:
        with (
            server.client() as client,
            client.kernels.exec(name, command, kernel=kernel, terminal=size) as execution,
        ):
            return converse(execution, forward=interactive, raw=terminal and interactive) & 0xFF
    except ClientProblem as problem:
        raise ClientFailure(problem) from problem
