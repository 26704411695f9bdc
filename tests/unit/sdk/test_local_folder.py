"""The folder in which a session works: a chosen one, none, or the current one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.domain.cluster import mount_roots
from sokovan.sdk.local_folder import (
    SYSTEM_FOLDERS,
    SYSTEM_STATE,
    chosen_workdir,
    is_system_folder,
    with_current_folder,
    without_links,
)
from sokovan.wire.api.sessions import MountBody, SessionBody
from tests.unit.domain.cluster.test_mount_roots import CLOSED, OPEN

BODY = SessionBody(command=["true"])


def test_a_value_of_the_option_is_absolute_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert chosen_workdir("none") == ""
    assert chosen_workdir("a") == str(tmp_path / "a")
    assert chosen_workdir("/b") == "/b"


@pytest.mark.parametrize("folder", ["/", "/usr", "/usr/bin"])
def test_a_system_folder_is_not_used(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert with_current_folder(BODY, ["/"]) == BODY


def test_the_current_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_current_folder(BODY, ["/"]).workdir == str(tmp_path)
    assert with_current_folder(BODY, ["/data"]) == BODY


def test_the_system_folders_are_those_that_the_server_refuses() -> None:
    assert (SYSTEM_FOLDERS, SYSTEM_STATE) == (mount_roots.SYSTEM_FOLDERS, mount_roots.SYSTEM_STATE)
    for path in (*CLOSED, *OPEN):
        assert is_system_folder(Path(path)) is bool(mount_roots.closed_folder(path)), path


def test_links_are_resolved_in_plain_paths_only(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    mounts = [MountBody(source=f"{tmp_path}/link", target="/a"), MountBody(source="/a/../b", target="/b")]
    found = without_links(SessionBody(command=["true"], workdir=f"{tmp_path}/link", mounts=mounts))
    assert [found.workdir, *(one.source for one in found.mounts)] == [f"{tmp_path}/real"] * 2 + ["/a/../b"]
    assert without_links(BODY) == BODY
