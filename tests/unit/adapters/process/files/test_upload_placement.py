"""Uploads are moved into the folders of a kernel, to this disk and to others."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path, PurePosixPath

import pytest

from sokovan.adapters.process.files.kernel_folders import FoundPath, KernelFolder
from sokovan.adapters.process.files.upload_placement import place_tree
from sokovan.ports.kernel_files import FileRefused


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "a").write_bytes(b"1")
    (folder / "src" / "run").write_bytes(b"2")
    (folder / "src" / "run").chmod(0o755)
    return folder


def target(tmp_path: Path, *parts: str, read_only: bool = False) -> FoundPath:
    (tmp_path / "work").mkdir(exist_ok=True)
    return FoundPath(KernelFolder(PurePosixPath("/seen"), tmp_path / "work", read_only), parts)


def test_the_path_is_the_one_that_the_kernel_sees(tmp_path: Path, source: Path) -> None:
    assert place_tree(source, target(tmp_path, "new", "name")) == "/seen/new/name"
    assert (tmp_path / "work" / "new" / "name" / "deep" / "a").read_bytes() == b"1"
    assert os.access(tmp_path / "work" / "new" / "name" / "run", os.X_OK)


def test_a_mount_that_is_read_only_is_not_written(tmp_path: Path, source: Path) -> None:
    with pytest.raises(FileRefused, match="read-only"):
        place_tree(source, target(tmp_path, read_only=True))


def test_a_file_in_the_way_of_a_folder_is_an_error(tmp_path: Path, source: Path) -> None:
    goal = target(tmp_path)
    (tmp_path / "work" / "src").write_bytes(b"")
    with pytest.raises(FileRefused, match="cannot be written"):
        place_tree(source, goal)


def test_another_disk_is_copied_to_and_a_full_one_is_reported(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def other_disk(old: str | Path, new: str, **folders: int) -> None:
        if "src_dir_fd" not in folders:
            raise OSError(errno.EXDEV, "another disk")
        rename(old, new, **folders)

    monkeypatch.setattr(os, "rename", other_disk)
    place_tree(source, target(tmp_path))
    assert (tmp_path / "work" / "src" / "deep" / "a").read_bytes() == b"1"
    assert os.access(tmp_path / "work" / "src" / "run", os.X_OK)

    def full(*_streams: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(FileRefused, match="no space is left"):
        place_tree(source, target(tmp_path, "again"))
    assert not [path for path in (tmp_path / "work").rglob("*") if path.is_file() and "again" in path.parts]
