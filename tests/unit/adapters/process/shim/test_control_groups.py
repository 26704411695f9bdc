"""Control groups, on folders that look like them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from sokovan.adapters.process.shim.control_groups import ControlGroups


def groups(tmp_path: Path, version: int, **files: str) -> tuple[ControlGroups, Path]:
    folder = tmp_path / "sokovan" / "k"
    folder.mkdir(parents=True)
    for name, text in {"cgroup_procs": "", **files}.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return ControlGroups(version, dict.fromkeys(("memory", "pids", "cpu", "freezer"), str(folder))), folder


def test_joining_writes_the_caller_into_each_folder_once(tmp_path: Path) -> None:
    joined, folder = groups(tmp_path, 2)
    joined.join()
    assert (folder / "cgroup.procs").read_text() == "0"


@pytest.mark.parametrize(("version", "file", "limit"), [(1, "cpu_cfs_quota_us", "5000"), (2, "cpu_max", "5000 100000")])
def test_the_cpu_limit_is_lifted_for_a_while_and_set_again(tmp_path: Path, version: int, file: str, limit: str) -> None:
    limited, folder = groups(tmp_path, version, **{file: f"{limit}\n"})
    path = folder / file.replace("_", ".", 1)
    with limited.unlimited_cpu():
        assert path.read_text().startswith("-1" if version == 1 else "max")
    assert path.read_text().strip() == limit
    with contextlib.suppress(InterruptedError), limited.unlimited_cpu():
        raise InterruptedError
    assert path.read_text().strip() == limit


def test_without_a_cpu_limit_nothing_is_lifted(tmp_path: Path) -> None:
    unlimited, folder = groups(tmp_path, 2, cpu_max="max 100000\n")
    with unlimited.unlimited_cpu(), ControlGroups(0, {}).unlimited_cpu():
        assert (folder / "cpu.max").read_text() == "max 100000\n"


def test_members_are_living_processes_only(tmp_path: Path) -> None:
    found, _ = groups(tmp_path, 1, cgroup_procs=f"{os.getpid()}\n{2**22 + 1}\n0\n")
    assert [process.pid for process in found.members()] == [os.getpid()]


def test_version_2_kills_by_one_word(tmp_path: Path) -> None:
    killed, folder = groups(tmp_path, 2, cgroup_kill="")
    killed.kill()
    assert (folder / "cgroup.kill").read_text() == "1"


def test_version_2_without_cgroup_kill_freezes_and_thaws(tmp_path: Path) -> None:
    killed, folder = groups(tmp_path, 2, cgroup_freeze="")
    killed.kill()
    assert (folder / "cgroup.freeze").read_text() == "0"


def test_version_1_freezes_and_thaws(tmp_path: Path) -> None:
    killed, folder = groups(tmp_path, 1, freezer_state="THAWED")
    killed.kill()
    assert (folder / "freezer.state").read_text().startswith("THAWED")


@pytest.mark.parametrize(
    ("version", "files", "expected"),
    [
        (1, {"memory_oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"}, True),
        (1, {"memory_oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"}, False),
        (2, {"memory_events": "low 0\nmax 3\noom 1\noom_kill 1\n"}, True),
        (2, {"memory_events": "low 0\nmax 3\noom 0\noom_kill 0\n"}, False),
        (2, {}, False),
    ],
)
def test_the_system_says_whether_it_killed_for_memory(
    tmp_path: Path, version: int, files: dict[str, str], expected: bool
) -> None:
    asked, _ = groups(tmp_path, version, **files)
    assert asked.killed_for_memory() is expected


def test_the_last_kernel_takes_the_folder_above_with_it(tmp_path: Path) -> None:
    removed, folder = groups(tmp_path, 2)
    assert not removed.remove()  # a plain folder with files in it stays, as a group with members would
    (folder / "cgroup.procs").unlink()
    assert removed.remove()
    assert removed.remove()
    assert not folder.parent.exists()


def test_no_groups_are_no_trouble() -> None:
    nothing = ControlGroups(0, {})
    nothing.join()
    nothing.kill()
    assert nothing.members() == []
    assert nothing.remove()
    assert not nothing.killed_for_memory()
