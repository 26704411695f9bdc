"""Connects the local terminal to a command in a session."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sokovan.cli.output import print_bytes
from sokovan.sdk.core.exec_frames import Terminal
from sokovan.sdk.errors import ClientProblem

if TYPE_CHECKING:
    from sokovan.sdk.sync.execution import Execution

CHUNK = 65536
DEFAULT_SIZE = Terminal(24, 80)


def terminal_size() -> Terminal:
    """The size of the terminal on standard output."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return DEFAULT_SIZE
    # A terminal without a known size reports 0.
    return Terminal(size.lines or DEFAULT_SIZE.rows, size.columns or DEFAULT_SIZE.columns)


def forward_streams(execution: Execution, *, forward: bool, raw: bool) -> int:
    """Forward input and output until the command ends; return its exit code."""
    with _raw_terminal(active=raw), _forwarding_size(execution, active=raw):
        if forward:
            threading.Thread(target=_forward_input, args=(execution,), daemon=True).start()
        else:
            execution.end_input()
        for content in execution:
            print_bytes(content)
    return execution.exit_code


def _forward_input(execution: Execution) -> None:
    """Forward standard input to the command. The thread is a daemon and ends with the process."""
    with contextlib.suppress(ClientProblem, OSError):
        while content := os.read(sys.stdin.fileno(), CHUNK):
            execution.write(content)
        execution.end_input()


@contextlib.contextmanager
def _raw_terminal(*, active: bool) -> Iterator[None]:
    """Put the terminal into raw mode, and restore it at the end."""
    if not active or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin.fileno())
    try:
        tty.setraw(sys.stdin.fileno())
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)


@contextlib.contextmanager
def _forwarding_size(execution: Execution, *, active: bool) -> Iterator[None]:
    """Resize the remote terminal whenever the local window is resized."""
    if not active:
        yield
        return

    def resize(_number: int, _frame: Any) -> None:
        with contextlib.suppress(ClientProblem):
            execution.resize(terminal_size())

    before = signal.signal(signal.SIGWINCH, resize)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
