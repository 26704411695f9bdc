"""Notices and checkpoints are files of a kernel, which may put anything in their place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.adapters.process.shim import notices


@pytest.fixture
def place(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "work").mkdir()
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    notices.make_folder(handle)
    yield handle
    os.close(handle)


@pytest.fixture
def folder(tmp_path: Path, place: int) -> Path:
    assert place
    return tmp_path / "work" / ".sokovan"


def test_a_notice_is_written_whole_and_can_be_read_by_every_account(place: int, folder: Path) -> None:
    notices.write_notice(place, "first")
    notices.write_notice(place, "second")
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [("notice.json", "second")]
    assert (folder / "notice.json").stat().st_mode & 0o777 == 0o644


def test_a_notice_finds_its_folder_removed_and_follows_no_link(place: int, folder: Path, tmp_path: Path) -> None:
    folder.rmdir()
    notices.write_notice(place, "again")
    assert (folder / "notice.json").read_text() == "again"
    (folder / "notice.json").unlink()
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"[Nn]ot a directory|symbolic"):
        notices.write_notice(place, "led astray")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", (None, False)),
        ('{"step": 7}', (7, False)),
        ('{"step": 7, "done": true}', (7, True)),
        ('{"step": true, "done": 1}', (None, False)),
        ('{"step": -1}', (None, False)),
        ('{"step": 99999999999999999999}', (None, False)),
        ("[" * 4096, (None, False)),
        ("not a document", (None, False)),
    ],
)
def test_a_checkpoint_has_the_time_of_its_file_and_what_it_says(
    place: int, folder: Path, content: str, said: tuple[int | None, bool]
) -> None:
    (folder / "checkpoint.json").write_text(content)
    os.utime(folder / "checkpoint.json", ns=(0, 5_000_000_000))
    assert notices.read_checkpoint(place) == {"at_ms": 5000, "step": said[0], "done": said[1]}
    assert notices.is_done(place) is said[1]


def test_links_pipes_and_folders_are_no_checkpoints(place: int, folder: Path) -> None:
    file = folder / "checkpoint.json"
    assert notices.read_checkpoint(place) is None
    file.symlink_to("/etc/hostname")
    assert notices.read_checkpoint(place) is None
    file.unlink()
    os.mkfifo(file)
    assert notices.read_checkpoint(place) is None
    file.unlink()
    file.mkdir()
    assert notices.read_checkpoint(place) is None
