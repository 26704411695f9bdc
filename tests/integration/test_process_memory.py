"""Kernels that need more memory than they have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.adapters.process.isolation import confinement
from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.ports.runtime import OUT_OF_MEMORY, PROBABLY_OUT_OF_MEMORY
from tests.kernels import ended, launch, output, runtime_in, seen


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(tmp_path / "root") as ready:
        yield ready


@pytest.fixture
def without_control_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "probe_hierarchies", Hierarchies)


async def test_a_kernel_that_takes_too_much_memory_is_ended_and_says_why(runtime: ProcessRuntime) -> None:
    if "memory" not in (await runtime.confinement()).hierarchies.controllers:
        pytest.skip("nothing on this machine limits the memory of a kernel")
    await runtime.create(launch("k", "x = bytearray(512 << 20); print(len(x))", slots={"mem": 64 << 20}))
    over = await ended(runtime, "k")
    assert (over.reason, over.exit_code) == (OUT_OF_MEMORY, 137)


@pytest.mark.usefixtures("without_control_groups")
async def test_without_control_groups_memory_is_limited_per_process(runtime: ProcessRuntime) -> None:
    script = "try:\n    bytearray(512 << 20)\nexcept MemoryError:\n    print('refused')"
    await runtime.create(launch("k", script, slots={"mem": 64 << 20}))
    await ended(runtime, "k")
    assert await output(runtime, "k") == b"refused\n"
    assert "memory by rlimit, per process" in (await seen(runtime, "k")).confinement


@pytest.mark.usefixtures("without_control_groups")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("bytearray(512 << 20)", PROBABLY_OUT_OF_MEMORY),
        ("import os\nkept = bytearray(60 << 20)\nos._exit(3)", PROBABLY_OUT_OF_MEMORY),
        ("raise SystemExit(3)", ""),
        ("raise SystemExit('torch.OutOfMemoryError: CUDA out of memory')", ""),
    ],
)
async def test_a_kernel_whose_memory_was_refused_says_that_it_probably_needed_more(
    runtime: ProcessRuntime, script: str, reason: str
) -> None:
    await runtime.create(launch("k", script, slots={"mem": 64 << 20}))
    assert (await ended(runtime, "k")).reason == reason
