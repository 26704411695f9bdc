"""A kernel is what its folder says, if the machine agrees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.process.layout import KernelLayout, folder_name, open_lock, opened
from sokovan.adapters.process.observer import RECHECKED, Observer
from sokovan.adapters.process.orphan_processes import OrphanProcesses
from sokovan.adapters.process.shim.processes import boot_id, look_up
from sokovan.adapters.process.shim.state_files import write_record
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelState, Observation
from sokovan.testing.clock import EPOCH_MS, VirtualClock


@pytest.fixture
def observer(tmp_path: Path) -> Observer:
    layout = KernelLayout(tmp_path)
    layout.prepare()
    return Observer(layout, VirtualClock())


def own_shim() -> dict[str, Any]:
    """A record whose shim is this very process."""
    own = look_up(os.getpid())
    assert own is not None
    return {"boot": boot_id(), "shim_pid": own.pid, "shim_start": own.start}


def kept(observer: Observer, name: str = "k", state: dict[str, Any] | None = None) -> str:
    folder = observer.layout.folder(KernelId(name), 1)
    folder.mkdir()
    with opened(folder) as handle:
        write_record(handle, "launch.json", {"kernel_id": name, "confinement": "none"})
        if state is not None:
            write_record(handle, "state.json", state)
    return folder.name


def seen(observer: Observer, state: dict[str, Any] | None) -> Observation:
    found = observer.one(kept(observer, state=state))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("further", "expected"),
    [
        ({}, KernelState.STARTING),
        ({"started_ms": 5}, KernelState.RUNNING),
        ({"started_ms": 5, "stopping_ms": 6}, KernelState.STOPPING),
        ({"started_ms": 5, "stopping_ms": 6, "ended_ms": 7, "exit_code": 3}, KernelState.EXITED),
    ],
)
def test_a_state_follows_from_its_record(observer: Observer, further: dict[str, Any], expected: KernelState) -> None:
    found = seen(observer, {**own_shim(), **further})
    assert found.state is expected
    assert (found.started_ms, found.ended_ms, found.exit_code) == (
        further.get("started_ms"),
        further.get("ended_ms"),
        further.get("exit_code"),
    )
    assert found.confinement == "none"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shim_start": 1}, "shim lost"),  # another process has its number now
        ({"shim_pid": 2**22 + 1}, "shim lost"),
        ({"boot": "another"}, "machine restarted"),
    ],
)
def test_a_kernel_without_its_shim_has_ended(observer: Observer, change: dict[str, Any], reason: str) -> None:
    found = seen(observer, {**own_shim(), "started_ms": 5, **change})
    assert (found.state, found.reason, found.exit_code) == (KernelState.EXITED, reason, 137)
    assert found.ended_ms == EPOCH_MS
    assert observer.one(folder_name(KernelId("k"), 1)) == found


def test_an_unkillable_kernel_is_not_reported_as_ended(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    own = look_up(os.getpid())
    monkeypatch.setattr(OrphanProcesses, "end", lambda _self: [own])
    found = seen(observer, {**own_shim(), "started_ms": 5, "shim_start": 1})
    assert (found.state, found.reason) == (KernelState.STOPPING, f"does not die: pid {os.getpid()}")


def test_an_unkillable_kernel_without_a_record_is_not_reported_as_ended(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = look_up(os.getpid())
    monkeypatch.setattr(OrphanProcesses, "end", lambda _self: [own])
    assert seen(observer, None).state is KernelState.STOPPING


def test_a_folder_without_a_state_is_starting_while_it_is_locked(observer: Observer) -> None:
    name = kept(observer)
    lock = open_lock(observer.layout.kernels / name, wait=False)
    found = observer.one(name)
    assert found is not None
    assert found.state is KernelState.STARTING
    os.close(lock)
    assert observer.one(name) is None
    assert not (observer.layout.kernels / name).exists()


def test_a_start_that_was_given_up_after_a_shim_had_begun_has_ended(observer: Observer) -> None:
    name = kept(observer)
    (observer.layout.kernels / name / "log").mkdir()
    found = observer.one(name)
    assert found is not None
    assert (found.state, found.reason, found.exit_code) == (KernelState.EXITED, "never started", 127)


def test_a_start_without_a_state_from_before_a_restart_of_the_machine_has_ended_with_it(observer: Observer) -> None:
    name = kept(observer)
    with opened(observer.layout.kernels / name) as handle:
        write_record(handle, "launch.json", {"kernel_id": "k", "boot": "another"})
    found = observer.one(name)
    assert found is not None
    assert (found.state, found.reason, found.exit_code) == (KernelState.EXITED, "machine restarted", 137)


def test_a_forgotten_kernel_whose_folder_is_still_there_is_removed(observer: Observer) -> None:
    name = kept(observer, state={**own_shim(), "ended_ms": 5})
    observer.layout.add_tombstone(name, EPOCH_MS)
    assert observer.all() == []
    assert list(observer.layout.kernels.iterdir()) == []


def test_kernels_come_by_id_and_those_without_a_record_by_the_name_of_their_folder(observer: Observer) -> None:
    for name in ("b", "a/x:y", "c"):
        kept(observer, name, state={**own_shim(), "ended_ms": 5})
    (observer.layout.kernels / folder_name(KernelId("a/x:y"), 1) / "launch.json").unlink()
    (observer.layout.kernels / ".new-x").mkdir()
    assert [one.kernel_id for one in observer.all()] == ["a/x:y", "b", "c"]


def test_what_is_not_there_is_none(observer: Observer) -> None:
    assert observer.one("none-1") is None
    (observer.layout.kernels / "file-1").touch()
    assert observer.all() == []


def test_what_is_over_is_not_read_again_until_it_is_forgotten(observer: Observer) -> None:
    name = kept(observer, "k", {"started_ms": 5, "ended_ms": 7, "exit_code": 3})
    running = kept(observer, "r", {**own_shim(), "started_ms": 5})
    first = observer.all()
    (observer.layout.kernels / name / "state.json").unlink()
    with opened(observer.layout.kernels / running) as handle:
        write_record(handle, "state.json", {"started_ms": 5, "ended_ms": 9, "exit_code": 0})
    [over, ended] = observer.all()
    assert over == first[0]
    assert (first[1].state, ended.state) == (KernelState.RUNNING, KernelState.EXITED)
    observer.layout.add_tombstone(name, EPOCH_MS)
    assert observer.all() == [ended]
    assert name not in observer.over


def test_what_another_runtime_has_forgotten_is_found_a_few_kernels_at_a_time(observer: Observer) -> None:
    names = [kept(observer, f"k{number:03}", {"ended_ms": 7, "exit_code": 0}) for number in range(2 * RECHECKED)]
    observer.all()
    for name in names:
        observer.layout.add_tombstone(name, EPOCH_MS)
    assert len(observer.all()) == RECHECKED
    assert observer.all() == []
    assert list(observer.layout.kernels.iterdir()) == []


def test_some_kernels_are_observed_without_the_others(observer: Observer) -> None:
    name = kept(observer, "a", {"ended_ms": 7, "exit_code": 3})
    kept(observer, "b", {"ended_ms": 7, "exit_code": 0})
    assert [one.exit_code for one in observer.some([name, "none-1"])] == [3]
