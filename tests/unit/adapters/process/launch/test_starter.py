"""A start happens once, or leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.fork_server import FORK_SERVER
from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies
from sokovan.adapters.process.isolation.confinement import Confinement, confinement
from sokovan.adapters.process.isolation.sandbox import Sandbox
from sokovan.adapters.process.launch import starter as starting
from sokovan.adapters.process.launch.environment import RUNTIME, marks_of
from sokovan.adapters.process.launch.port_probe import PortTaken
from sokovan.adapters.process.launch.starter import KernelTombstoned, Starter
from sokovan.adapters.process.layout import KernelLayout, open_lock
from sokovan.adapters.process.observer import UNFINISHED_AGE_MS, Observer
from sokovan.adapters.process.orphan_processes import OrphanProcesses
from sokovan.adapters.process.shim import processes
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelRemains, KernelState, RuntimeFailure
from sokovan.testing.clock import VirtualClock
from tests.kernels import SLEEP, launch, relatives, runtime_in


@pytest.fixture
async def starter(tmp_path: Path) -> AsyncIterator[Starter]:
    async with runtime_in(tmp_path):
        layout = KernelLayout(tmp_path)
        yield Starter(layout, ProcessImages(layout, SystemClock(), {}), confinement(bubblewrap=""))


@pytest.mark.slow
async def test_a_second_start_does_nothing(starter: Starter, tmp_path: Path) -> None:
    starter.start(launch("k", SLEEP))
    running = relatives(tmp_path)
    starter.start(launch("k", SLEEP))
    assert relatives(tmp_path) == running
    assert len(running) == 1


async def test_what_is_kept_of_a_launch_is_enough_to_find_it_and_no_more(starter: Starter, tmp_path: Path) -> None:
    starter.start(launch("k", SLEEP, environment={"TOKEN": "secret"}))
    text = (tmp_path / "kernels" / "k-1" / "launch.json").read_text()
    assert '"kernel_id": "k"' in text
    assert "secret" not in text
    assert SLEEP not in text


async def test_the_record_of_a_start_names_its_control_groups_before_they_exist(
    starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[dict[str, Any]] = []

    def note(*_arguments: object, name: str, **_options: object) -> None:
        records.append(json.loads((tmp_path / "kernels" / "k-1" / "launch.json").read_text()))
        raise RuntimeFailure(f"no limits for {name}")

    with monkeypatch.context() as patch:
        patch.setattr(starting, "set_limits", note)
        with pytest.raises(RuntimeFailure, match="no limits"):
            starter.start(launch("k", SLEEP))
    hierarchies = starter.confinement.hierarchies
    own = marks_of(KernelId("k"), 1, root=tmp_path)[RUNTIME]
    assert records[0]["groups"] == {"version": hierarchies.version, "folders": hierarchies.folders(f"{own}-k-1")}
    assert records[0]["boot"] == processes.boot_id()


async def test_the_record_of_an_abandoned_start_is_replaced(starter: Starter, tmp_path: Path) -> None:
    place = tmp_path / "kernels" / "k-1"
    for folder in (place, place / "work", place / "tmp"):
        folder.mkdir()
    (place / "launch.json").write_text('{"kernel_id": "k", "boot": "another"}')
    starter.start(launch("k", SLEEP))
    record = json.loads((place / "launch.json").read_text())
    assert (record["boot"], record["folder"]) == (processes.boot_id(), str(place / "work"))


async def test_a_failed_start_of_which_something_is_left_is_not_reported_as_nothing(
    starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeFailure("no answer")

    undead = processes.look_up(os.getpid())
    monkeypatch.setattr(FORK_SERVER, "run_shim", fail)
    monkeypatch.setattr(OrphanProcesses, "end", lambda _self: [undead])
    with pytest.raises(KernelRemains, match=f"no answer; pid {os.getpid()}"):
        starter.start(launch("k", SLEEP))

    found = Observer(KernelLayout(tmp_path), VirtualClock()).all()
    assert [(one.state, one.reason) for one in found] == [(KernelState.STOPPING, f"does not die: pid {os.getpid()}")]


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [OSError(24, "Too many open files"), RuntimeFailure("no"), KeyboardInterrupt()])
async def test_a_start_that_fails_leaves_neither_folder_nor_groups(
    starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    def fail(*_arguments: object) -> None:
        raise trouble

    with monkeypatch.context() as patch:
        patch.setattr(FORK_SERVER, "run_shim", fail)
        with pytest.raises((RuntimeFailure, KeyboardInterrupt)):
            starter.start(launch("k", SLEEP))
    assert list((tmp_path / "kernels").iterdir()) == []
    groups = starter.confinement.hierarchies.parents.values()
    own = marks_of(KernelId("k"), 1, root=tmp_path)[RUNTIME]
    assert [path for parent in groups for path in parent.glob(f"sokovan/{own}-*")] == []
    starter.start(launch("k", SLEEP))


@pytest.mark.parametrize("ahead_ms", [0, UNFINISHED_AGE_MS + 60_000])
async def test_a_look_that_comes_in_between_does_not_disturb_a_start(
    starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_ms: int
) -> None:
    looks = [Observer(starter.layout, VirtualClock(now_ms=SystemClock().now_ms() + ahead_ms))]

    def looked_at_first(folder: Path, *, wait: bool) -> int:
        while folder.name.startswith(".") and looks:
            looks.pop().all()
        return open_lock(folder, wait=wait)

    monkeypatch.setattr(starting, "open_lock", looked_at_first)
    starter.start(launch("k", SLEEP))
    assert looks == []
    assert [path.name for path in (tmp_path / "kernels").iterdir()] == ["k-1"]


async def test_a_start_that_is_given_up_leaves_no_shim(
    starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims: list[int] = []
    run_shim = FORK_SERVER.run_shim

    def give_up(plan: dict[str, Any], lock: int) -> None:
        run_shim(plan, lock)
        shims.append(json.loads((tmp_path / "kernels" / "k-1" / "state.json").read_text())["shim_pid"])
        os.kill(shims[0], signal.SIGSTOP)
        raise RuntimeFailure("its shim said nothing")

    monkeypatch.setattr(FORK_SERVER, "run_shim", give_up)
    with pytest.raises(RuntimeFailure, match="said nothing"):
        starter.start(launch("k", SLEEP))
    found = processes.look_up(shims[0])
    assert found is None or not found.alive
    assert relatives(tmp_path) == []


async def test_limits_that_cannot_be_set_leave_nothing(starter: Starter, tmp_path: Path) -> None:
    broken = Confinement(Sandbox(absence="none"), Hierarchies(1, {"pids": tmp_path / "none"}))
    with pytest.raises(RuntimeFailure, match="limits"):
        Starter(starter.layout, starter.images, broken).start(launch("k", SLEEP))
    assert list((tmp_path / "kernels").iterdir()) == []


async def test_a_tombstone_refuses_a_start(starter: Starter) -> None:
    starter.layout.add_tombstone("k-1", 0)
    with pytest.raises(KernelTombstoned, match="forgotten"):
        starter.start(launch("k", SLEEP))
    starter.start(launch("k", SLEEP, attempt=2))


@pytest.mark.slow
async def test_a_kernel_whose_port_is_taken_leaves_nothing_and_starts_once_it_is_free(
    starter: Starter, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken):
            starter.start(launch("k", SLEEP, ports=(port,)))
        assert not (tmp_path / "kernels" / "k-1").exists()
    starter.start(launch("k", SLEEP, ports=(port,)))
    with socket.create_server(("127.0.0.1", port)):  # the kernel's own, when a start is repeated
        starter.start(launch("k", SLEEP, ports=(port,)))
    assert len(relatives(tmp_path)) == 1
