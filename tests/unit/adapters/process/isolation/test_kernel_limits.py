"""Limits go into control groups where there are some, else into rlimits."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from sokovan.adapters.process.isolation.cgroup_hierarchies import CONTROLLERS, Hierarchies
from sokovan.adapters.process.isolation.kernel_limits import limits_in_words, rlimits_for, set_limits
from sokovan.adapters.process.shim.processes import MARK_LIMIT
from sokovan.ports.runtime import RuntimeFailure
from tests.kernels import launch

ASKED = {"mem": 1 << 30, "cpu": 1500}


def prepared(tmp_path: Path, version: int, *files: str) -> Hierarchies:
    """Folders in which the control files are there already."""
    folder = tmp_path / "sokovan" / "k"
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).touch()
    (folder.parent / "cgroup.subtree_control").touch()
    return Hierarchies(version, dict.fromkeys(CONTROLLERS, tmp_path))


def written(tmp_path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in (tmp_path / "sokovan" / "k").iterdir() if file.read_text()}


def test_version_1_has_its_own_files(tmp_path: Path) -> None:
    files = ("memory.limit_in_bytes", "cpu.cfs_period_us", "cpu.cfs_quota_us", "pids.max")
    limits = set_limits(launch("k", "pass", slots=ASKED, processes_max=7), prepared(tmp_path, 1, *files), name="k")
    assert written(tmp_path) == {
        "memory.limit_in_bytes": "1073741824",
        "memory.memsw.limit_in_bytes": "1073741824",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
        "pids.max": "7",
    }
    assert (limits.version, set(limits.folders)) == (1, set(CONTROLLERS))


def test_version_2_has_its_own_files_too(tmp_path: Path) -> None:
    set_limits(launch("k", "pass", slots=ASKED, processes_max=7), prepared(tmp_path, 2), name="k")
    assert written(tmp_path) == {
        "memory.max": "1073741824",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "150000 100000",
        "pids.max": "7",
    }


def test_what_is_not_asked_for_is_not_limited_but_for_processes(tmp_path: Path) -> None:
    set_limits(launch("k", "pass"), prepared(tmp_path, 2), name="k")
    assert written(tmp_path) == {"pids.max": "4096"}


def test_a_sliver_of_a_processor_is_as_little_as_the_system_can_give(tmp_path: Path) -> None:
    set_limits(launch("k", "pass", slots={"cpu": 1}), prepared(tmp_path, 2), name="k")
    assert written(tmp_path)["cpu.max"] == "1000 100000"


def test_limits_that_cannot_be_set_refuse_the_kernel(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="cannot be set"):
        set_limits(launch("k", "pass"), Hierarchies(1, {"pids": tmp_path / "none"}), name="k")


def test_without_control_groups_rlimits_hold_what_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    found = {kind: soft for kind, soft, _ in rlimits_for(launch("k", "pass", slots=ASKED), Hierarchies())}
    assert found[resource.RLIMIT_CORE] == 0
    assert found[resource.RLIMIT_DATA] == 1 << 30
    assert found[resource.RLIMIT_NPROC] <= 4096
    assert limits_in_words(Hierarchies()) == (
        "no cgroup is writable; memory by rlimit, per process; processes by rlimit, per account; cpu not limited"
    )


def test_with_control_groups_the_description_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = Hierarchies(2, dict.fromkeys(CONTROLLERS, Path("/x")))
    kinds = {kind for kind, _, _ in rlimits_for(launch("k", "pass", slots=ASKED), everything)}
    assert kinds == {resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, MARK_LIMIT}
    assert limits_in_words(everything) == "limits by cgroup v2: memory, pids, cpu"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert limits_in_words(Hierarchies(1, {"memory": Path("/x")})) == (
        "limits by cgroup v1: memory; processes not limited (the agent is root); cpu not limited"
    )
