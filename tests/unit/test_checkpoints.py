"""A program in a kernel reports checkpoints and sees notices by files, without a network."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import sokovan


def test_outside_of_a_kernel_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOKOVAN_CHECKPOINT", "SOKOVAN_NOTICE"):
        monkeypatch.delenv(name, raising=False)
    assert sokovan.checkpoint(1) is False
    assert sokovan.eviction() is None


def test_a_checkpoint_replaces_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "checkpoint.json"
    monkeypatch.setenv("SOKOVAN_CHECKPOINT", str(file))
    assert sokovan.checkpoint() is True
    assert json.loads(file.read_text()) == {"done": False}
    sokovan.checkpoint(3, done=True)
    assert json.loads(file.read_text()) == {"step": 3, "done": True}
    assert list(tmp_path.iterdir()) == [file]


def test_the_notice_of_an_eviction_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "notice.json"
    monkeypatch.setenv("SOKOVAN_NOTICE", str(file))
    assert sokovan.eviction() is None
    file.write_text('{"reason": "preempt", "evict_at": 12.5}')
    assert sokovan.eviction() == {"reason": "preempt", "evict_at": 12.5}
    file.write_text("[]")
    assert sokovan.eviction() is None


@pytest.fixture
def signals() -> Iterator[None]:
    kept = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, kept)


@pytest.mark.usefixtures("signals")
def test_a_program_that_asks_for_notices_outlives_the_signal_after_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notice.json"
    monkeypatch.setenv("SOKOVAN_NOTICE", str(file))
    assert sokovan.eviction() is None
    file.write_text('{"reason": "preempt"}')
    os.kill(os.getpid(), signal.SIGTERM)
    assert sokovan.eviction() == {"reason": "preempt"}


@pytest.mark.usefixtures("signals")
def test_without_a_notice_a_program_that_asks_for_one_ends_at_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOKOVAN_NOTICE", str(tmp_path / "notice.json"))
    child = os.fork()
    if child == 0:
        sokovan.eviction()
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM


@pytest.mark.usefixtures("signals")
def test_a_programs_own_handler_and_other_threads_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOKOVAN_NOTICE", str(tmp_path / "notice.json"))
    thread = threading.Thread(target=sokovan.eviction)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sokovan.eviction()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
