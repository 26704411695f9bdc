"""Observations of containers: ends with their reasons, and what is no proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.docker.container_traces import container_of, traces_of
from sokovan.adapters.docker.engine.client import EngineUnavailable
from sokovan.adapters.docker.streams import ContainerStreams
from sokovan.adapters.process.layout import LAUNCH, KernelLayout, opened
from sokovan.adapters.process.shim.state_files import write_record
from sokovan.ports.runtime import KernelState
from sokovan.testing.clock import VirtualClock
from tests.unit.adapters.docker.canned_engine import CannedEngine, canned_engine

LABELS = {"sokovan.kernel": "k", "sokovan.attempt": "1"}


def streams(engine: CannedEngine, root: Path, *, started: bool = True) -> ContainerStreams:
    """The parts of a runtime, with one kernel."""
    layout = KernelLayout(root)
    layout.prepare()
    (layout.kernels / "k-1").mkdir()
    with opened(layout.kernels / "k-1") as folder:
        write_record(folder, LAUNCH, {"kernel_id": "k", "attempt": 1})
    found = ContainerStreams(engine.client, layout, VirtualClock())
    if started:
        found._records.write_state("k-1", {"container": "c", "started_ms": 1})
    return found


def about(status: str, **state: Any) -> dict[str, Any]:
    """A container as the engine tells."""
    return {"Id": "c", "State": {"Status": status, "Running": status == "running", "ExitCode": 0, **state}}


def answers(status: str, **state: Any) -> dict[str, tuple[int, Any]]:
    """An engine with one container."""
    return {
        "GET /containers/json": (200, [{"Id": "c", "State": status, "Labels": LABELS}]),
        "GET /containers/c/json": (200, about(status, **state)),
        "GET /containers/c/logs": (200, b""),
    }


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [
        ({"ExitCode": 3}, 3, ""),
        ({"ExitCode": 137}, 137, "signal 9"),
        ({"ExitCode": 137, "OOMKilled": True}, 137, "out-of-memory"),
    ],
)
async def test_an_end_has_its_code_and_reason(state: dict[str, Any], code: int, reason: str, tmp_path: Path) -> None:
    async with canned_engine(answers("exited", FinishedAt="1970-01-01T00:00:09Z", **state)) as engine:
        [seen] = await streams(engine, tmp_path)._observer.all()
        assert (seen.state, seen.exit_code, seen.reason) == (KernelState.EXITED, code, reason)
        assert seen.ended_ms == 9000
        assert "DELETE /containers/c?force=1&v=1" in engine.asked


async def test_a_container_that_somebody_removed_has_ended(tmp_path: Path) -> None:
    async with canned_engine({"GET /containers/json": (200, [])}) as engine:
        [seen] = await streams(engine, tmp_path)._observer.all()
        assert (seen.state, seen.exit_code, seen.reason) == (KernelState.EXITED, 137, "container removed")


async def test_a_container_that_is_missing_in_a_listing_is_asked_for(tmp_path: Path) -> None:
    async with canned_engine({**answers("running"), "GET /containers/json": (200, [])}) as engine:
        [seen] = await streams(engine, tmp_path)._observer.all()
        assert seen.state is KernelState.RUNNING


async def test_a_silent_engine_proves_nothing(tmp_path: Path) -> None:
    async with canned_engine() as engine:
        observer = streams(engine, tmp_path)._observer
    with pytest.raises(EngineUnavailable):
        await observer.all()


async def test_a_container_that_was_never_started_leaves_nothing(tmp_path: Path) -> None:
    name = container_of(traces_of(tmp_path, "k", 1))
    async with canned_engine({"GET /containers/json": (200, [])}) as engine:
        found = streams(engine, tmp_path, started=False)
        assert await found._observer.all() == []
        assert f"DELETE /containers/{name}?force=1&v=1" in engine.asked
        assert found._layout.names() == []


async def test_a_container_whose_start_was_not_recorded_is_adopted(tmp_path: Path) -> None:
    name = container_of(traces_of(tmp_path, "k", 1))
    known = {**answers("running"), f"GET /containers/{name}/json": (200, about("running", Pid=0))}
    async with canned_engine(known) as engine:
        found = streams(engine, tmp_path, started=False)
        [seen] = await found._observer.all()
        assert seen.state is KernelState.RUNNING
        assert (found._records.state("k-1") or {})["container"] == "c"


async def test_a_container_of_a_forgotten_kernel_is_removed(tmp_path: Path) -> None:
    async with canned_engine(answers("running")) as engine:
        found = streams(engine, tmp_path)
        found._layout.add_tombstone("k-1", 1)
        found._layout.discard("k-1")
        assert await found._observer.all() == []
        assert "DELETE /containers/c?force=1&v=1" in engine.asked


async def test_a_container_whose_folder_was_removed_is_an_orphan_and_is_ended(tmp_path: Path) -> None:
    async with canned_engine(answers("running")) as engine:
        found = streams(engine, tmp_path)
        found._layout.discard("k-1")
        assert await found._observer.all() == []
        assert "DELETE /containers/c?force=1&v=1" in engine.asked
