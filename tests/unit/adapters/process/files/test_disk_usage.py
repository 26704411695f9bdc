"""Kernels beyond their disk space are found, whatever they have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from sokovan.adapters.process.files import disk_usage
from sokovan.adapters.process.files.disk_usage import DiskUsage
from sokovan.testing.clock import VirtualClock
from tests.unit.adapters.process.files.kernels import TERMS, Machine

LIMIT = 1 << 20
LIMITED = replace(TERMS, kernel_disk_max=LIMIT)
SHARED = replace(TERMS, owner_disk_max=LIMIT)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def ended() -> dict[str, str]:
    return {}


@pytest.fixture
def usage(machine: Machine, ended: dict[str, str]) -> DiskUsage:
    return DiskUsage(machine.layout, VirtualClock(), ended.__setitem__, machine.told.append)


def write(folder: Path, size: int, name: str = "file") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"x" * size)


@pytest.mark.parametrize("where", ["work", "work below", "output", "upload"])
def test_a_kernel_beyond_its_limit_is_ended_and_others_are_not(
    where: str, machine: Machine, usage: DiskUsage, ended: dict[str, str]
) -> None:
    work = machine.kernel("big", session="s1", terms=LIMITED)
    write(machine.kernel("small", session="s2", terms=LIMITED), LIMIT // 2)
    folders = {
        "work": work,
        "work below": work / "a" / "b",
        "output": machine.output("big"),
        "upload": machine.layout.upload_folder("s1"),
    }
    write(folders[where], LIMIT + 1)
    usage.check()
    assert ended == {"big-1": f"disk-limit: its folders have more than {LIMIT} bytes"}


def test_space_that_is_freed_is_noticed_at_the_next_measurement(
    machine: Machine, usage: DiskUsage, ended: dict[str, str]
) -> None:
    work = machine.kernel("k", terms=LIMITED)
    for _ in range(5):
        write(work, LIMIT // 2)
        usage.check()
        (work / "file").unlink()
        usage.check()
    assert ended == {}
    write(work, LIMIT * 2)
    usage.check()
    assert list(ended) == ["k-1"]


def test_of_an_owner_with_too_much_the_largest_kernel_is_ended(
    machine: Machine, usage: DiskUsage, ended: dict[str, str]
) -> None:
    for name, size in (("a", LIMIT // 4), ("b", LIMIT // 2), ("c", LIMIT // 3)):
        write(machine.kernel(name, session=name, terms=SHARED), size)
    write(machine.kernel("other", session="o", terms=replace(SHARED, owner="lee")), LIMIT // 2)
    usage.check()
    assert list(ended) == ["b-1"]
    assert "all kernels of its owner here" in ended["b-1"]


def test_kernels_that_have_ended_or_have_no_limit_are_not_measured(
    machine: Machine, usage: DiskUsage, ended: dict[str, str]
) -> None:
    write(machine.kernel("over", terms=LIMITED), LIMIT * 2)
    machine.end("over", ended_ms=1)
    write(machine.kernel("free", terms=TERMS), LIMIT * 2)
    usage.check()
    assert ended == {}


def test_links_lead_nowhere_and_a_file_of_several_names_counts_once(
    machine: Machine, usage: DiskUsage, ended: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write(elsewhere, LIMIT * 2)
    work = machine.kernel("k", terms=LIMITED)
    (work / "folder").symlink_to(elsewhere)
    (work / "link").symlink_to(elsewhere / "file")
    write(work, LIMIT // 2)
    for number in range(4):
        os.link(work / "file", work / f"again-{number}")
    usage.check()
    assert ended == {}


@pytest.mark.parametrize("limit", ["FILES_MAX", "FOLDERS_MAX", "DEPTH_MAX"])
def test_what_cannot_be_measured_is_beyond_the_limit(
    limit: str, machine: Machine, ended: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_usage, limit, 5)
    usage = DiskUsage(machine.layout, VirtualClock(), ended.__setitem__, machine.told.append)
    work = machine.kernel("k", terms=LIMITED)
    if limit == "DEPTH_MAX":
        write(work.joinpath(*"abcdefg"), 1)
    else:
        for number in range(7):
            (work / str(number)).mkdir()
    usage.check()
    assert "in its folders" in ended["k-1"]


def test_a_check_takes_its_time_and_no_more_and_the_next_one_goes_on(
    machine: Machine, ended: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(VirtualClock):
        """Every look at the clock takes the whole budget."""

        def monotonic_ms(self) -> int:
            self.looks = getattr(self, "looks", 0) + 1
            return self.looks * (disk_usage.BUDGET_MS - 1)

    monkeypatch.setattr(disk_usage, "_SLICE", 8)
    usage = DiskUsage(machine.layout, Slow(), ended.__setitem__, machine.told.append)
    work = machine.kernel("many", session="s1", terms=LIMITED)
    for number in range(30):
        write(work, LIMIT // 16, f"file-{number}")
    write(machine.kernel("big", session="s2", terms=LIMITED), LIMIT * 2)
    usage.check()
    assert list(ended) == ["big-1"], "a kernel with many files does not hold up the others"
    for _ in range(10):
        usage.check()
    assert list(ended) == ["big-1", "many-1"]


def test_an_error_of_the_disk_is_told(machine: Machine, usage: DiskUsage) -> None:
    machine.layout.kernels.rmdir()
    usage.check_logged()
    assert "could not be measured" in machine.told[0]
