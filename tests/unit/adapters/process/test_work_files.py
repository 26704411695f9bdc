"""Files and mounts stay below the working folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.process.work_files import check_mounts, link_mounts, parts_below, write_files
from sokovan.ports.runtime import Mount, RuntimeFailure


def test_files_are_written_with_the_folders_they_need(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1", "b/c/d.txt": "tëxt", "./e": "2"})
    assert {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {
        "a": "1",
        "b/c/d.txt": "tëxt",
        "e": "2",
    }


@pytest.mark.parametrize("path", ["", ".", "/", "/a", "..", "../a", "a/../../b", "a/..", "a\0b"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(RuntimeFailure, match="does not lie below"):
        parts_below(path, what="file")
    with pytest.raises(RuntimeFailure):
        write_files(tmp_path / "work", {path: "x"})


@pytest.mark.parametrize("path", ["link/out", "file"])
def test_a_file_is_written_through_no_link(tmp_path: Path, path: str) -> None:
    outside, work = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    work.mkdir()
    (work / "link").symlink_to(outside)
    (work / "file").symlink_to(outside / "file")
    with pytest.raises(RuntimeFailure, match="cannot be written"):
        write_files(work, {path: "x"})
    assert list(outside.iterdir()) == []


def test_a_text_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="cannot be written"):
        write_files(tmp_path, {"a": "\ud800"})


def test_without_a_sandbox_a_mount_is_a_link(tmp_path: Path) -> None:
    work, source = tmp_path / "work", tmp_path / "source"
    work.mkdir()
    source.mkdir()
    link_mounts(work, [Mount(str(source), "data/set"), Mount(str(source), str(source))])
    assert (work / "data" / "set").readlink() == source
    with pytest.raises(RuntimeFailure, match="without a sandbox"):
        link_mounts(work, [Mount(str(source), "/data")])
    with pytest.raises(RuntimeFailure, match="cannot be made"):
        link_mounts(work, [Mount(str(source), "data/set")])


@pytest.mark.parametrize("target", ["data", "a/b", "/data", "/workspace/sets"])
def test_a_mount_may_be_below_the_work_folder_or_at_a_place_of_its_own(target: str) -> None:
    check_mounts([Mount("/usr", target)])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("usr", "data"),
        ("/usr/../etc", "data"),
        ("/usr\0", "data"),
        ("/there/is/nothing", "data"),
        ("/usr", "../data"),
        ("/usr", "/"),
        ("/usr", "/etc"),
        ("/usr", "/proc/1"),
        ("/usr", "/data/../etc"),
        ("/usr", "/da\0ta"),
    ],
)
def test_a_mount_that_is_not_there_or_reaches_out_is_refused(source: str, target: str) -> None:
    with pytest.raises(RuntimeFailure):
        check_mounts([Mount(source, target)])
