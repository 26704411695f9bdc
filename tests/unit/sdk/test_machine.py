"""The mark of a machine: stable for one user, and without what it is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.sdk import machine
from sokovan.sdk.machine import machine_mark


def test_it_is_stable_and_tells_users_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = machine_mark()
    assert mark == machine_mark()
    assert len(mark) == 32
    monkeypatch.setattr("os.geteuid", lambda: 4242)
    assert machine_mark() != mark


def test_a_machine_that_does_not_tell_has_no_mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "_BOOT_ID", tmp_path / "missing")
    assert machine_mark() == ""
