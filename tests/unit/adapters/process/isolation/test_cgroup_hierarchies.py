"""Control groups are found where they are mounted, and tried before they are used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sokovan.adapters.process.isolation import cgroup_hierarchies
from sokovan.adapters.process.isolation.cgroup_hierarchies import CONTROLLERS, Hierarchies, probe_hierarchies

OWN_1 = "5:memory:/a\n4:cpu,cpuacct:/\n3:pids:/a/b\n2:freezer:/\n0::/\n"


def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, mounts: str, own: str) -> None:
    """Make /proc describe a machine whose mounts are below a folder."""
    files = {"/proc/self/mountinfo": mounts.replace("AT", str(tmp_path)), "/proc/self/cgroup": own}
    original = Path.read_text

    def read_text(path: Path) -> str:
        return files[str(path)] if str(path) in files else original(path)

    monkeypatch.setattr(Path, "read_text", read_text)
    # A plain folder has no control files; creating one here adds them.
    original_mkdir = Path.mkdir

    def mkdir(path: Path, mode: int = 0o777, *, exist_ok: bool = False) -> None:
        original_mkdir(path, mode, exist_ok=exist_ok)
        (path / "cgroup.procs").touch()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", lambda _path: None)


def test_version_1_is_used_controller_by_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("memory/a", "cpu", "pids/a/b", "freezer"):
        (tmp_path / name).mkdir(parents=True)
    mounts = "".join(
        f"3{number} 24 0:2{number} / AT/{folder} rw - cgroup cgroup rw,{options}\n"
        for number, (folder, options) in enumerate(
            {"memory": "memory", "cpu": "cpu,cpuacct", "pids": "pids", "freezer": "freezer"}.items()
        )
    )
    machine(tmp_path, monkeypatch, mounts=mounts + "40 24 0:40 / AT/unified rw - cgroup2 none rw\n", own=OWN_1)
    found = probe_hierarchies()
    assert (found.version, found.controllers) == (1, CONTROLLERS)
    assert found.parents == {
        "memory": tmp_path / "memory" / "a",
        "cpu": tmp_path / "cpu",
        "pids": tmp_path / "pids" / "a" / "b",
        "freezer": tmp_path / "freezer",
    }


def unified(tmp_path: Path, *, controllers: str, procs: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "cgroup.controllers").write_text(controllers)
    (own / "cgroup.procs").write_text(procs)
    (own / "cgroup.subtree_control").touch()


def test_version_2_is_used_when_it_has_everything_and_the_agent_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unified(tmp_path, controllers="cpuset cpu io memory pids", procs=f"{os.getpid()}\n")
    machine(tmp_path, monkeypatch, mounts="40 24 0:40 / AT rw - cgroup2 none rw\n", own="0::/own\n")
    found = probe_hierarchies()
    assert (found.version, found.controllers) == (2, CONTROLLERS)
    assert set(found.parents.values()) == {tmp_path / "own"}
    assert (tmp_path / "own" / "agent" / "cgroup.procs").read_text() == str(os.getpid())
    assert (tmp_path / "own" / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_version_2_without_what_it_takes_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unified(tmp_path, controllers="hugetlb", procs="")
    machine(tmp_path, monkeypatch, mounts="40 24 0:40 / AT rw - cgroup2 none rw\n", own="0::/own\n")
    assert probe_hierarchies() == Hierarchies()


def test_a_container_sees_its_own_part_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pids" / "inner").mkdir(parents=True)
    mounts = "31 24 0:21 /docker/x AT/pids rw - cgroup cgroup rw,pids\n"
    machine(tmp_path, monkeypatch, mounts=mounts, own="3:pids:/docker/x/inner\n")
    assert probe_hierarchies().parents == {"pids": tmp_path / "pids" / "inner"}


def test_what_cannot_be_written_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = "31 24 0:21 / AT/pids rw - cgroup cgroup rw,pids\n"  # there is no such folder
    machine(tmp_path, monkeypatch, mounts=mounts, own="3:pids:/\n")
    assert probe_hierarchies() == Hierarchies()


def test_a_kernel_gets_a_folder_below_each_parent(tmp_path: Path) -> None:
    made = Hierarchies(1, {"pids": tmp_path / "pids", "memory": tmp_path / "memory"})
    for parent in made.parents.values():
        parent.mkdir()
    made.make("k")
    made.make("k")
    assert made.folders("k") == {name: str(tmp_path / name / "sokovan" / "k") for name in ("pids", "memory")}
    assert all(Path(folder).is_dir() for folder in made.folders("k").values())


def test_version_2_hands_its_controllers_down(tmp_path: Path) -> None:
    (tmp_path / "sokovan").mkdir()
    (tmp_path / "sokovan" / "cgroup.subtree_control").touch()
    Hierarchies(2, dict.fromkeys(CONTROLLERS, tmp_path)).make("k")
    assert (tmp_path / "sokovan" / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_this_machine_is_asked_without_leaving_a_trace() -> None:
    found = probe_hierarchies()
    assert found.version in {0, 1, 2}
    left = [
        path for parent in found.parents.values() for path in parent.glob(f"{cgroup_hierarchies.OWN_FOLDER}-probe-*")
    ]
    assert left == []
