"""Files and mounts stay below the working folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.process.launch.work_files import (
    check_mounts,
    parts_below,
    require_in_place,
    require_not_hidden,
    require_targets,
    require_workdir,
    write_files,
)
from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.runtime import PathUnavailable, RuntimeFailure
from sokovan.wire.frames import CreateKernel, MountEntry


def test_files_are_written_with_the_folders_they_need(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1", "b/c/d.txt": "tëxt", "./e": "2"})
    assert {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {
        "a": "1",
        "b/c/d.txt": "tëxt",
        "e": "2",
    }


@pytest.mark.parametrize("path", ["", ".", "/", "/a", "..", "../a", "a/../../b", "a/..", "a\0b"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(RuntimeFailure, match="is not below"):
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


def test_without_a_sandbox_a_mount_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    require_in_place([MountEntry(str(tmp_path), str(tmp_path)), MountEntry(str(tmp_path), str(tmp_path / "link"))])
    with pytest.raises(RuntimeFailure, match="without a sandbox"):
        require_in_place([MountEntry(str(tmp_path), "/data")])


@pytest.mark.parametrize("target", ["/data", "/workspace/sets", "/home/work/sets"])
def test_a_mount_may_be_at_a_place_of_its_own(target: str, tmp_path: Path) -> None:
    check_mounts([MountEntry(str(tmp_path), target)])


def test_a_folder_for_scratch_may_be_shown_where_it_is(tmp_path: Path) -> None:
    check_mounts([MountEntry("/var/tmp", "/var/tmp"), MountEntry("/tmp", "/tmp")])  # noqa: S108  # only looked at
    with pytest.raises(RuntimeFailure):
        check_mounts([MountEntry(str(tmp_path), "/tmp")])  # noqa: S108  # only looked at


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("/there/is/nothing", "/data"),
        ("/opt", "/"),
        ("/opt", "/etc"),
        ("/opt", "/proc/1"),
        ("/usr", "/data"),
        ("/etc", "/etc"),
        ("/var/run", "/data"),
        ("/root/.ssh", "/data"),
        ("/opt/../etc", "/data"),
        ("tmp", "/data"),
    ],
)
def test_a_mount_that_is_not_there_or_covers_the_system_is_refused(source: str, target: str) -> None:
    with pytest.raises(PathUnavailable):
        check_mounts([MountEntry(source, target)])


def test_what_is_hidden_cannot_be_mounted_from_below_above_or_around(tmp_path: Path) -> None:
    hidden = tmp_path / "home" / "data"
    (hidden / "deep").mkdir(parents=True)
    (tmp_path / "around").symlink_to(hidden)
    (tmp_path / "home" / "work").mkdir()
    require_not_hidden([MountEntry(str(tmp_path / "home" / "work"), "/work")], [hidden])
    for source in (hidden, hidden / "deep", tmp_path / "home"):
        with pytest.raises(PathUnavailable, match="hidden from kernels"):
            require_not_hidden([MountEntry(str(source), "/work")], [hidden])
    with pytest.raises(PathUnavailable, match="symbolic link"):
        check_mounts([MountEntry(str(tmp_path / "around"), "/work")])


def launched(*targets: str, **options: Any) -> CreateKernel:
    mounts = tuple(MountEntry("/srv/data", target) for target in targets)
    return CreateKernel(KernelId("k"), 1, SessionId("s"), "host", ("true",), mounts=mounts, **options)


@pytest.mark.parametrize("target", ["/home/agent/kernels/k/work/data", "/home/agent", "/home", "/home/keys/x"])
def test_nothing_is_mounted_on_folders_of_the_agent(target: str) -> None:
    with pytest.raises(PathUnavailable, match="folder of the agent"):
        require_targets(launched(target, owns_folders=True), [Path("/home/agent"), Path("/home/keys")])


@pytest.mark.parametrize(
    ("targets", "workdir"),
    [(("/data", "/data/deep"), ""), (("/data/deep", "/data"), ""), (("/project/data",), "/project")],
)
def test_nothing_is_mounted_where_a_user_could_have_put_a_link(targets: tuple[str, ...], workdir: str) -> None:
    with pytest.raises(PathUnavailable, match="another folder of the kernel"):
        require_targets(launched(*targets, workdir=workdir), [])
    require_targets(launched(*targets, workdir=workdir, owns_folders=True), [])


def test_mounts_beside_one_another_are_not_inside_one_another() -> None:
    require_targets(launched("/data", "/database", "/more/data", workdir="/project"), [Path("/home/agent")])


def test_a_working_directory_exists_and_is_neither_hidden_nor_of_the_system(tmp_path: Path) -> None:
    hidden = tmp_path / "data"
    (hidden / "deep").mkdir(parents=True)
    (tmp_path / "around").symlink_to(hidden)
    (tmp_path / "system").symlink_to("/etc")
    for good in ("", "below/it", str(tmp_path)):
        require_workdir(good, [hidden])
    for folder in (hidden, hidden / "deep"):
        with pytest.raises(PathUnavailable, match="hidden"):
            require_workdir(str(folder), [hidden])
    for folder in (tmp_path / "around", tmp_path / "system"):
        with pytest.raises(PathUnavailable, match="symbolic link"):
            require_workdir(str(folder), [hidden])
    for folder in (Path("/"), Path("/usr")):
        with pytest.raises(RuntimeFailure, match="system folder"):
            require_workdir(str(folder), [hidden])
    with pytest.raises(RuntimeFailure, match="does not exist"):
        require_workdir(str(tmp_path / "missing"), [hidden])
