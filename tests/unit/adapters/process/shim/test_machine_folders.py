"""A folder of the machine is opened without following a link anywhere in its path."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sokovan.adapters.process.shim import machine_folders
from sokovan.adapters.process.shim.machine_folders import folder_failure, open_folder


@pytest.fixture(params=["one call", "part by part"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test holds with and without the system call."""
    if request.param == "part by part":
        monkeypatch.setattr(machine_folders, "_OPENAT2", 9999)


def seen(path: Path | str) -> str:
    """The place of the folder that is opened."""
    handle = open_folder(str(path))
    try:
        return str(Path(f"/proc/self/fd/{handle}").readlink())
    finally:
        os.close(handle)


def failure(path: Path | str) -> OSError:
    """How the folder could not be opened."""
    try:
        os.close(open_folder(str(path)))
    except OSError as error:
        return error
    raise AssertionError(path)


def test_a_folder_is_opened_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert seen(tmp_path / "a" / "b") == str(tmp_path / "a" / "b")
    assert seen(f"//{tmp_path}/a//b/") == str(tmp_path / "a" / "b")
    assert seen("/") == "/"


@pytest.mark.parametrize("path", ["to-etc", "to-etc/ssl", "inside", "a/up", "a/magic"])
def test_no_link_is_followed_wherever_it_leads(tmp_path: Path, path: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "to-etc").symlink_to("/etc")
    (tmp_path / "inside").symlink_to("a")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "magic").symlink_to("/proc/self/cwd")
    error = failure(tmp_path / path)
    assert error.errno in {errno.ELOOP, errno.ENOTDIR}
    assert "symbolic link" in folder_failure(str(tmp_path / path), error)


def test_nothing_above_is_reached(tmp_path: Path) -> None:
    assert failure(f"{tmp_path}/../../../../../../../..").errno == errno.EXDEV


@pytest.mark.parametrize(("path", "reason"), [("file", "is not a folder"), ("missing", "does not exist")])
def test_what_is_no_folder_is_refused_with_its_reason(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "file").touch()
    assert reason in folder_failure(str(tmp_path / path), failure(tmp_path / path))


def test_a_folder_that_is_open_stays_what_it_is_when_a_link_takes_its_place(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    handle = open_folder(str(tmp_path / "mine"))
    (tmp_path / "mine").rename(tmp_path / "aside")
    (tmp_path / "mine").symlink_to("/etc")
    assert [entry.name for entry in Path(f"/proc/self/fd/{handle}").iterdir()] == ["file"]
    os.close(handle)
