"""Output is kept for its time and within its limits, and then proven to be gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from sokovan.adapters.process.files import output_collection
from sokovan.adapters.process.files.output_collection import FREE_BYTES_MIN
from sokovan.adapters.process.layout import DISCARDED
from sokovan.domain.ids import KernelId
from sokovan.ports.kernel_files import KernelPath
from tests.unit.adapters.process.files.kernels import TERMS, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def ended(machine: Machine, kernel: str, *, ended_s: int, session: str = "", **files: int) -> None:
    machine.kernel(kernel, session=session or f"session-of-{kernel}")
    machine.wrote(kernel, files, at_s=ended_s * 10)
    machine.end(kernel, ended_ms=ended_s * 1000)


def kept(machine: Machine) -> set[str]:
    return {path.name for path in machine.layout.outputs.iterdir()}


def test_output_is_removed_after_its_retention_and_not_before(machine: Machine) -> None:
    ended(machine, "k1", ended_s=10, a=5)
    machine.kernel("running")
    machine.wrote("running", {"b": 5})
    assert machine.collector.collect(now_ms=109_999) == 0
    assert kept(machine) == {"k1-1", "running-1"}
    assert machine.collector.collect(now_ms=110_000) == 1
    assert kept(machine) == {"running-1"}
    assert any("5 bytes were removed" in line for line in machine.told)


def test_the_time_of_the_end_outlives_the_kernel(machine: Machine) -> None:
    ended(machine, "k1", ended_s=10, a=5)
    machine.layout.note_end("k1-1", 10_000)
    machine.layout.discard("k1-1")
    assert machine.collector.collect(now_ms=109_999) == 0
    assert machine.collector.collect(now_ms=110_000) == 1
    assert kept(machine) == set()


def test_empty_output_is_removed_at_once_and_an_empty_file_is_kept(machine: Machine) -> None:
    ended(machine, "k1", ended_s=10)
    ended(machine, "k2", ended_s=10, done=0)
    machine.collector.collect(now_ms=10_000)
    assert kept(machine) == {"k2-1"}


def test_of_a_session_the_newest_files_within_its_limit_are_kept(machine: Machine) -> None:
    ended(machine, "k1", ended_s=10, session="s", oldest=600, large=1001)
    ended(machine, "k2", ended_s=11, session="s", newest=500)
    machine.collector.collect(now_ms=12_000)
    assert not list(machine.output("k1").iterdir())
    assert [path.name for path in machine.output("k2").iterdir()] == ["newest"]
    found = machine.outputs.one("k1-1")
    assert found is not None
    assert (found.dropped_files, found.dropped_bytes) == (2, 1601)
    assert found.kept_until_ms == 110_000
    assert machine.collector.owner_bytes("kim") == 500
    machine.collector.collect(now_ms=13_000)
    assert kept(machine) == {"k1-1", "k2-1"}


def test_of_a_user_the_oldest_sessions_beyond_the_limit_are_removed(machine: Machine) -> None:
    for number in range(3):
        ended(machine, f"k{number}", ended_s=10 + number, a=900)
    machine.kernel("k9", terms=replace(TERMS, owner="lee"))
    machine.wrote("k9", {"a": 900})
    machine.end("k9", ended_ms=1000)
    machine.collector.collect(now_ms=20_000)
    assert kept(machine) == {"k1-1", "k2-1", "k9-1"}
    assert machine.collector.owner_bytes("kim") == 1800


def test_a_full_disk_removes_the_oldest_output_of_all_first(machine: Machine) -> None:
    for number in range(3):
        ended(machine, f"k{number}", ended_s=10 + number, a=400)
    machine.free_bytes = FREE_BYTES_MIN - 401
    machine.collector.collect(now_ms=20_000)
    assert kept(machine) == {"k2-1"}


def test_what_a_killed_agent_was_removing_is_removed(machine: Machine) -> None:
    left = machine.layout.outputs / f"{DISCARDED}x"
    (left / "files").mkdir(parents=True)
    machine.collector.collect(now_ms=0)
    assert kept(machine) == set()


def test_output_of_too_many_files_is_not_kept(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_collection, "ENTRIES_MAX", 2)
    ended(machine, "k1", ended_s=10, a=1, b=1, c=1)
    machine.collector.collect(now_ms=11_000)
    assert kept(machine) == set()
    assert any("not kept" in line for line in machine.told)


def test_output_that_cannot_be_read_is_kept_for_its_time(machine: Machine) -> None:
    ended(machine, "k1", ended_s=10, a=1)
    machine.output("k1").rename(machine.output("k1").with_name("moved"))
    machine.collector.collect_logged(now_ms=11_000)
    assert kept(machine) == {"k1-1"}
    machine.collector.collect(now_ms=110_000)
    assert kept(machine) == set()


def test_an_error_of_the_disk_is_logged(machine: Machine) -> None:
    machine.layout.outputs.rmdir()
    machine.collector.collect_logged(now_ms=0)
    assert any("could not be collected" in line for line in machine.told)


async def test_the_quota_is_visible(machine: Machine) -> None:
    ended(machine, "k1", ended_s=10, a=700)
    machine.collector.collect(now_ms=11_000)
    listing = await machine.files.list(KernelPath(KernelId("k1"), 1, "output"), after="", files_max=10)
    assert listing.output is not None
    assert (listing.output.owner_bytes, listing.output.owner_bytes_max) == (700, 2000)
    assert (listing.output.kept_until_ms, listing.output.session_bytes_max) == (110_000, 1000)
