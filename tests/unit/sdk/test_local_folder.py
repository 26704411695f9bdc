"""The folder in which a session works: a chosen one, none, or the current one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.domain.commands import SCRATCH_FOLDERS
from sokovan.orchestrator.sessions.intake.shape_validators import SYSTEM_TARGETS
from sokovan.sdk.local_folder import SYSTEM_FOLDERS, chosen_workdir, current_folder


def test_a_value_of_the_option_is_absolute_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert chosen_workdir("none") == ""
    assert chosen_workdir("a") == str(tmp_path / "a")
    assert chosen_workdir("/b") == "/b"


@pytest.mark.parametrize("folder", ["/", "/usr", "/usr/bin"])
def test_a_system_folder_is_not_used(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert current_folder() == ""


def test_the_current_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert current_folder() == str(tmp_path)


def test_the_system_folders_are_those_that_the_server_refuses() -> None:
    assert SYSTEM_FOLDERS == SYSTEM_TARGETS - SCRATCH_FOLDERS
