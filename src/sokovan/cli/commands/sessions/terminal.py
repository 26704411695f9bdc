"""The caller's terminal, tied to a command that runs elsewhere."""

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

PIECE = 65536
USUAL = Terminal(24, 80)


def terminal_size() -> Terminal:
    """The size of the terminal that our output goes to."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return USUAL
    # A terminal that nobody told its size says that it has none.
    return Terminal(size.lines or USUAL.rows, size.columns or USUAL.columns)


def converse(execution: Execution, *, forward: bool, raw: bool) -> int:
    """Carry input there and output here until the command ends; its exit code."""
    with _raw_terminal(active=raw), _telling_size(execution, active=raw):
        if forward:
            threading.Thread(target=_carry_input, args=(execution,), daemon=True).start()
        else:
            execution.end_input()
        for content in execution:
            print_bytes(content)
    return execution.exit_code


def _carry_input(execution: Execution) -> None:
    """Our input to the command, until one of them ends. The thread dies with the process."""
    with contextlib.suppress(ClientProblem, OSError):
        while content := os.read(sys.stdin.fileno(), PIECE):
            execution.write(content)
        execution.end_input()


@contextlib.contextmanager
def _raw_terminal(*, active: bool) -> Iterator[None]:
    """Every key goes through as it is; the terminal is put right again whatever happens."""
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
def _telling_size(execution: Execution, *, active: bool) -> Iterator[None]:
    """Tell the command whenever the window changes."""
    if not active:
        yield
        return

    def tell(_number: int, _frame: Any) -> None:
        with contextlib.suppress(ClientProblem):
            execution.resize(terminal_size())

    before = signal.signal(signal.SIGWINCH, tell)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
