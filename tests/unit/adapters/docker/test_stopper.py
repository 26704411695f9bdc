"""Stops of containers: recorded first, a signal each, and none for what has ended."""

from __future__ import annotations

from pathlib import Path

from sokovan.adapters.docker.kernel_records import KernelRecords
from sokovan.adapters.docker.stopper import ContainerStopper
from sokovan.adapters.process.layout import KernelLayout
from sokovan.testing.clock import VirtualClock
from tests.unit.adapters.docker.canned_engine import CannedEngine, canned_engine

KILL = {"POST /containers/c/kill": (204, None)}


def stopper(engine: CannedEngine, root: Path, **state: object) -> ContainerStopper:
    """A stopper of one kernel with this state."""
    layout = KernelLayout(root)
    layout.prepare()
    (layout.kernels / "k-1").mkdir()
    records = KernelRecords(layout)
    records.write_state("k-1", {"container": "c", "started_ms": 1, **state})
    return ContainerStopper(engine.client, records, VirtualClock())


def signals(engine: CannedEngine) -> list[str]:
    """The signals that were sent, in order."""
    return [one.partition("signal=")[2] for one in engine.asked if "/kill" in one]


async def test_a_kernel_is_asked_first_and_killed_at_once_by_a_second_stop(tmp_path: Path) -> None:
    async with canned_engine(KILL) as engine:
        stops = stopper(engine, tmp_path)
        await stops.stop("k-1", 1000.0, reason="disk-limit")
        state = stops.records.state("k-1") or {}
        assert (state["stop_reason"], signals(engine)) == ("disk-limit", ["15"])
        await stops.stop("k-1", 0.0)
        assert signals(engine)[:2] == ["15", "9"]
        assert (stops.records.state("k-1") or {})["stopping_ms"] == state["stopping_ms"]
        stops.close()


async def test_unknown_and_ended_kernels_are_left_alone(tmp_path: Path) -> None:
    async with canned_engine(KILL) as engine:
        stops = stopper(engine, tmp_path, ended_ms=2)
        await stops.stop("k-1", 0.0)
        await stops.stop("nobody-1", 0.0)
        assert engine.asked == []


async def test_a_stop_is_recorded_even_if_the_engine_is_silent(tmp_path: Path) -> None:
    async with canned_engine() as engine:
        stops = stopper(engine, tmp_path)
        await stops.stop("k-1", 5.0, notice='{"reason": "preempt"}')
        assert (stops.records.state("k-1") or {})["notice"] is True
        stops.close()
