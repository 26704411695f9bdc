"""Paths below a folder are opened without leaving it, whatever changes meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sokovan.adapters.process.files.file_access import checked_parts, identities, opened_beneath
from sokovan.ports.kernel_files import FileMissing, FileRefused


def read(root: Path, path: str, hidden: tuple[Path, ...] = ()) -> bytes:
    with opened_beneath(root, checked_parts(path), hidden=identities(hidden)) as handle:
        return os.read(handle, 100)


def test_links_are_followed_only_as_long_as_they_stay_inside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "x").write_bytes(b"inside")
    (tmp_path / "x").write_bytes(b"outside")
    (root / "a" / "b" / "up").symlink_to("../../x")
    (root / "a" / "b" / "out").symlink_to("../../../x")
    (root / "a" / "same").symlink_to(str(root / "x"))
    assert read(root, "a/b/up") == b"inside"
    for path in ("a/b/out", "a/same"):
        with pytest.raises(FileRefused, match="link"):
            read(root, path)


def test_what_is_missing_is_told_from_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    for path in ("nothing", "x/below", "nothing/below"):
        with pytest.raises(FileMissing, match="does not exist"):
            read(tmp_path, path)
    with pytest.raises(FileMissing):
        read(tmp_path / "gone", "x")


def test_devices_and_pipes_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileRefused, match="neither a regular file"):
        read(tmp_path, "pipe")
    with pytest.raises(FileRefused, match="neither a regular file"):
        read(Path("/dev"), "null")


def test_a_hidden_folder_is_refused_by_any_path(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "token").write_bytes(b"secret")
    (tmp_path / "alias").symlink_to("keys")
    for path in ("keys/token", "alias/token"):
        with pytest.raises(FileRefused, match="hidden"):
            read(tmp_path, path, (tmp_path / "keys", tmp_path / "nothing"))


@pytest.mark.parametrize("path", ["..", "a/../../b", "a\nb", "\x1b[31m", "x" * 5000, "/".join(["a"] * 100)])
def test_paths_that_could_leave_or_confuse_are_refused(path: str) -> None:
    with pytest.raises(FileRefused):
        checked_parts(path)


def test_dots_and_doubled_slashes_mean_nothing() -> None:
    assert checked_parts("./a//b/.") == ("a", "b")
