"""A program in a kernel reports checkpoints and sees notices by files, without a network."""

from __future__ import annotations

import json
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
