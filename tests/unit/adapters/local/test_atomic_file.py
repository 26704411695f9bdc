"""Files that are replaced whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sokovan.adapters.local.atomic_file import remove_unfinished, write_whole


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_is_private(tmp_path: Path) -> None:
    write_whole(tmp_path / "f", b"one")
    assert (tmp_path / "f").read_bytes() == b"one"
    assert mode(tmp_path / "f") == 0o600


@pytest.mark.parametrize("old", [0o600, 0o640, 0o444])
def test_a_file_keeps_its_mode(tmp_path: Path, old: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one")
    path.chmod(old)
    write_whole(path, b"two")
    assert (path.read_bytes(), mode(path)) == (b"two", old)


def test_the_file_is_another_one_afterwards_so_that_a_reader_of_the_old_one_reads_on(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_whole(path, b"one")
    with path.open("rb") as reader:
        write_whole(path, b"two")
        assert reader.read() == b"one"


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_bytes(b"one")
    (tmp_path / "link").symlink_to("real/f")
    write_whole(tmp_path / "link", b"two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "f").read_bytes() == b"two"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_after_an_error_the_old_file_is_as_it_was_and_nothing_lies_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one")

    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"two")
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["f"]


def test_a_folder_that_is_not_there_is_an_error_of_the_operating_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "f", b"")


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("f", ".f.abc.new", ".g.abc.new", "f.bak", "f.new"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path / "f")
    assert names(tmp_path) == [".g.abc.new", "f", "f.bak", "f.new"]
