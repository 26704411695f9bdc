"""What a machine has, and what of it is ours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from sokovan.agent.machine import boot_id, cpu_millicores, disk_obstacle, load_figures, memory_bytes

GIB = 1 << 30


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


MEMINFO = "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\nHugePages_Total:       0\n"


def test_a_machine_without_control_groups_is_ours_whole(tmp_path: Path) -> None:
    root = machine(tmp_path, {"proc/meminfo": MEMINFO})

    assert memory_bytes(root) == 16 * GIB
    assert cpu_millicores(root, processors=8) == 8000


def test_the_quota_of_a_group_holds_and_so_do_those_above_it(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/pod/agent\n",
            "sys/fs/cgroup/pod/agent/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pod/agent/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/pod/memory.max": "max\n",
        },
    )

    assert cpu_millicores(root, processors=8) == 1500
    assert memory_bytes(root) == 8 * GIB


def test_the_first_version_of_control_groups_is_read_too(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:cpu,cpuacct:/agent\n3:memory:/agent\n1:name=systemd:/agent\n",
            "sys/fs/cgroup/cpu/agent/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/agent/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/agent/memory.limit_in_bytes": f"{2 * GIB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )

    assert cpu_millicores(root, processors=4) == 500
    assert memory_bytes(root) == 2 * GIB


@pytest.mark.parametrize("content", ["max 100000", "-1", "", "rubbish", "100000 0"])
def test_a_group_without_a_quota_leaves_the_processors(tmp_path: Path, content: str) -> None:
    root = machine(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": content})

    assert cpu_millicores(root, processors=3) == 3000


def test_a_path_that_only_the_machine_can_see_leaves_the_group_at_the_top(tmp_path: Path) -> None:
    root = machine(tmp_path, {"proc/self/cgroup": "0::/machine/elsewhere\n", "sys/fs/cgroup/cpu.max": "100000 100000"})

    assert cpu_millicores(root, processors=16) == 1000


def test_affinity_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 3}, raising=False)

    assert cpu_millicores(tmp_path) == 2000


def test_a_system_without_affinity_has_all_its_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)

    assert cpu_millicores(tmp_path) == 6000


def test_this_machine_has_something() -> None:
    assert cpu_millicores() >= 1
    assert memory_bytes() > 1 << 20


def test_a_machine_has_a_name_for_the_time_since_it_was_started(tmp_path: Path) -> None:
    assert boot_id(tmp_path) == ""
    assert boot_id(machine(tmp_path, {"proc/sys/kernel/random/boot_id": "abc\n"})) == "abc"


@pytest.mark.parametrize(
    ("total", "free", "enough"),
    [
        (100 * GIB, 5 * GIB, True),
        (100 * GIB, 5 * GIB - 1, False),
        (10 * GIB, 2 * GIB, True),
        (10 * GIB, 2 * GIB - 1, False),
        (0, 0, False),
    ],
)
def test_new_kernels_need_space_in_part_and_in_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, total: int, free: int, enough: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(total=total, free=free))
    obstacle = disk_obstacle(tmp_path)

    assert (obstacle == "") is enough
    assert enough or "free" in obstacle


def test_a_disk_that_does_not_answer_is_an_obstacle(tmp_path: Path) -> None:
    assert "cannot read the free space" in disk_obstacle(tmp_path / "nowhere")


def test_figures_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    root = machine(tmp_path, {"proc/meminfo": MEMINFO})
    figures = load_figures(tmp_path, root)

    assert figures["memory_used_bytes"] == 8 * GIB
    assert figures["disk_free_bytes"] > 0
    assert "memory_used_bytes" not in load_figures(tmp_path / "nowhere", tmp_path / "nowhere")
