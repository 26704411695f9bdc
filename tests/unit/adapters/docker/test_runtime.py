"""The Docker runtime: what it needs of an engine, and what it forgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.docker.engine.client import EngineClient, EngineUnavailable
from sokovan.adapters.docker.runtime import DockerRuntime
from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.runtime import RuntimeFailure
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import CreateKernel
from tests.unit.adapters.docker.canned_engine import canned_engine


async def test_without_an_engine_nothing_is_started(tmp_path: Path) -> None:
    runtime = DockerRuntime(tmp_path / "root", VirtualClock(), EngineClient(tmp_path / "nobody"))
    launch = CreateKernel(KernelId("k"), 1, SessionId("s"), "train", ("python",))
    for asked in (runtime.create(launch), runtime.observe(), runtime.has_image("train")):
        with pytest.raises(EngineUnavailable):
            await asked
    runtime.close()


async def test_an_ended_kernel_is_forgotten_for_ever(tmp_path: Path) -> None:
    async with canned_engine({"GET /info": (200, {})}) as engine:
        runtime = DockerRuntime(tmp_path / "root", VirtualClock(), engine.client)
        place = tmp_path / "root" / "kernels" / "k-1"
        place.mkdir()
        runtime._records.write_state("k-1", {"container": "c", "ended_ms": 1})
        assert (await runtime.read_log(KernelId("k"), 1, offset=0, limit=1)).end
        await runtime.forget(KernelId("k"), 1)
        assert not place.exists()
        with pytest.raises(RuntimeFailure, match="forgotten"):
            await runtime.create(CreateKernel(KernelId("k"), 1, SessionId("s"), "train", ("python",)))
        with pytest.raises(RuntimeFailure):
            await runtime.read_log(KernelId("k"), 1, offset=0, limit=1)
        runtime.close()


async def test_a_kernel_that_is_ended_for_the_agent_has_its_reason(tmp_path: Path) -> None:
    async with canned_engine() as engine:
        runtime = DockerRuntime(tmp_path / "root", VirtualClock(), engine.client)
        (tmp_path / "root" / "kernels" / "k-1").mkdir()
        runtime._records.write_state("k-1", {"container": "c", "started_ms": 1})
        await runtime.end("k-1", "disk-limit: too much")
        assert (runtime._records.state("k-1") or {})["stop_reason"] == "disk-limit: too much"
        runtime.close()
