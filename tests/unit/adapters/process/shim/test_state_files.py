"""Records are replaced whole, and are written over when there is no space."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.adapters.process.shim import state_files
from sokovan.adapters.process.shim.state_files import read_record, write_record


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield handle
    os.close(handle)


def test_a_record_is_read_as_it_was_written(folder: int, tmp_path: Path) -> None:
    write_record(folder, "r.json", {"a": 1, "b": "ä"})
    write_record(folder, "r.json", {"a": 2}, lasting=False)
    assert read_record(folder, "r.json") == {"a": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == 0o600


def test_a_record_is_written_over_when_there_is_no_space_for_another(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(folder, "r.json", {"a": "a long one, to see that nothing of it stays"})
    size, inode = (tmp_path / "r.json").stat().st_size, (tmp_path / "r.json").stat().st_ino

    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_files, "_replace", refuse)
    write_record(folder, "r.json", {"b": 1})
    assert read_record(folder, "r.json") == {"b": 1}
    assert ((tmp_path / "r.json").stat().st_size, (tmp_path / "r.json").stat().st_ino) == (size, inode)
    with pytest.raises(OSError, match="No space left"):
        write_record(folder, "other.json", {"b": 1})


@pytest.mark.parametrize("content", ["", "{", "[]", "1", "\0"])
def test_what_is_not_a_whole_record_is_none(folder: int, tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    assert read_record(folder, "r.json") is None


def test_neither_links_nor_pipes_nor_folders_are_records(folder: int, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("{}")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert [read_record(folder, name) for name in ("real", "link", "folder", "pipe", "none")] == [{}, *[None] * 4]
