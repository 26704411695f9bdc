"""Handles SIGTERM and SIGHUP of a command in the foreground like Ctrl-C."""

from __future__ import annotations

import signal
import threading

import pytest

from sokovan.cli.commands.sessions.interrupts import SIGNALS, SignalledToStop, stop_signals


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts_the_block_and_is_restored_after_it(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # the tests may run with SIGHUP ignored, under nohup
    try:
        with pytest.raises(SignalledToStop), stop_signals():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_leaves_the_signals_alone() -> None:
    found: list[object] = []

    def look() -> None:
        with stop_signals():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]
