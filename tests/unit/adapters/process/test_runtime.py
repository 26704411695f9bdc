"""The process runtime beyond the promises that every runtime keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sokovan.adapters.process.layout import KernelLayout
from sokovan.adapters.process.runtime import COLLECT_EVERY_MS, TOMBSTONE_AGE_MS, ProcessRuntime
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import RuntimeFailure
from sokovan.testing.clock import VirtualClock
from tests.kernels import SLEEP, ended, launch, output, runtime_in, said


def test_a_machine_that_is_not_linux_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(RuntimeFailure, match="Linux only"):
        ProcessRuntime(tmp_path, VirtualClock())


def test_a_root_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeFailure, match="cannot be used"):
        ProcessRuntime(tmp_path / "file" / "root", VirtualClock())


async def test_what_confines_kernels_is_the_same_for_the_runtime_and_its_kernels(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        await runtime.create(launch("k", SLEEP))
        [found] = await runtime.observe()
        assert found.confinement == (await runtime.confinement()).in_words()
        assert await runtime.confinement() is await runtime.confinement()


async def test_a_root_that_is_reached_by_a_link_is_the_same_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    async with runtime_in(tmp_path / "link") as one, runtime_in(tmp_path / "real") as other:
        await one.create(launch("k", SLEEP))
        assert [found.kernel_id for found in await other.observe()] == ["k"]


async def test_a_kernel_inherits_no_open_file_but_its_streams(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        await runtime.create(launch("k", "import os; print(sorted(os.listdir('/proc/self/fd'), key=int))"))
        await ended(runtime, "k")
        assert await output(runtime, "k") == b"['0', '1', '2', '3']\n"  # the fourth reads the list


async def test_old_tombstones_are_removed(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with runtime_in(tmp_path / "root") as plain:
        runtime = ProcessRuntime(tmp_path / "root", clock, bubblewrap="")
        for name in ("old", "new"):
            await runtime.create(launch(name, "pass"))
            await ended(plain, name)
        await runtime.forget(KernelId("old"), 1)
        clock.jump(TOMBSTONE_AGE_MS / 1000 + 1)
        await runtime.forget(KernelId("new"), 1)
        assert [tombstone.name for tombstone in (tmp_path / "root" / "forgotten").iterdir()] == ["new-1"]


@pytest.mark.slow
async def test_tombstones_are_read_once_in_a_while_and_not_for_each_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, reads = VirtualClock(), list[int]()
    monkeypatch.setattr(KernelLayout, "remove_tombstones", lambda _layout, older_than_ms: reads.append(older_than_ms))
    async with runtime_in(tmp_path / "root") as plain:
        runtime = ProcessRuntime(tmp_path / "root", clock, bubblewrap="")
        for name in ("a", "b", "c"):
            await runtime.create(launch(name, "pass"))
            await ended(plain, name)
        await runtime.forget(KernelId("a"), 1)
        await runtime.forget(KernelId("b"), 1)
        assert len(reads) == 1
        clock.jump(COLLECT_EVERY_MS / 1000 + 1)
        await runtime.forget(KernelId("c"), 1)
        assert len(reads) == 2


async def test_offsets_and_limits_below_zero_are_taken_as_zero(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        await runtime.create(launch("k", SLEEP))
        await said(runtime, "k", b"up\n")
        assert (await runtime.read_log(KernelId("k"), 1, offset=-5, limit=2)).data == b"up"
        assert (await runtime.read_log(KernelId("k"), 1, offset=0, limit=-5)).data == b""
