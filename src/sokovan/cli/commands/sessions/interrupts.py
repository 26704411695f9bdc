"""Handles SIGTERM and SIGHUP of a command in the foreground like Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class SignalledToStop(KeyboardInterrupt):
    """The command was asked to end by a signal: no one is there to be prompted."""


@contextmanager
def stop_signals() -> Iterator[None]:
    """Raise SignalledToStop on SIGTERM and SIGHUP inside the block.

    A signal that is ignored, as SIGHUP under nohup, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise SignalledToStop
