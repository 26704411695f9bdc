"""The caller's terminal, tied to a command that runs elsewhere."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.cli.commands.sessions.terminal import forward_streams, terminal_size
from sokovan.sdk.core.exec_frames import Terminal
from sokovan.sdk.sync.execution import Execution, execute
from tests.unit.sdk.fake_websocket import fake_websocket


@pytest.fixture
def keyboard() -> Iterator[tuple[int, int]]:
    """A pseudo-terminal: the user's end and the program's end."""
    theirs, ours = pty.openpty()
    yield theirs, ours
    os.close(theirs)
    os.close(ours)


def test_input_is_carried_there_and_output_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("abc", encoding="utf-8")
    with fake_websocket() as (_, endpoint), (tmp_path / "in").open(encoding="utf-8") as given:
        monkeypatch.setattr(sys, "stdin", given)
        with execute(endpoint, "ddp", ["7"]) as execution:
            assert forward_streams(execution, forward=True, raw=False) == 7
    assert capsys.readouterr().out == "ABC"


def test_without_forwarding_input_ends_at_once() -> None:
    with fake_websocket() as (_, endpoint), execute(endpoint, "ddp", ["3"]) as execution:
        assert forward_streams(execution, forward=False, raw=False) == 3


def test_a_terminal_is_raw_meanwhile_and_put_right_afterwards(
    keyboard: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ours = keyboard
    before = termios.tcgetattr(ours)
    modes: list[int] = []

    end_input = Execution.end_input

    def resize_first(execution: Execution) -> None:
        """Record the terminal mode while the command runs, and resize the terminal."""
        modes.append(termios.tcgetattr(ours)[3] & termios.ECHO)
        signal.raise_signal(signal.SIGWINCH)
        end_input(execution)

    monkeypatch.setattr(Execution, "end_input", resize_first)
    with fake_websocket() as (fake, endpoint), open(ours, encoding="utf-8", closefd=False) as given:  # a descriptor
        monkeypatch.setattr(sys, "stdin", given)
        with execute(endpoint, "ddp", ["0"], terminal=Terminal(24, 80)) as execution:
            assert forward_streams(execution, forward=False, raw=True) == 0
    assert modes == [0]
    assert len(fake.resized) == 1
    assert termios.tcgetattr(ours)[:4] == before[:4]
    assert signal.getsignal(signal.SIGWINCH) == signal.SIG_DFL


def test_the_size_is_that_of_the_terminal_or_a_usual_one(
    keyboard: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ours = keyboard
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    with open(ours, "w", encoding="utf-8", closefd=False) as screen:  # a descriptor
        monkeypatch.setattr(sys, "stdout", screen)
        assert terminal_size() == Terminal(30, 100)
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        assert terminal_size() == Terminal(24, 80)
    with Path(os.devnull).open("w", encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdout", nothing)
        assert terminal_size() == Terminal(24, 80)
