"""Files of kernels: logs that grow, links, mounts, disks that are full, descriptors that are used up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelState, RuntimeFailure
from sokovan.wire.frames import MountEntry
from tests.kernels import SLEEP, ended, launch, needs_root, place, runtime_in, seen, until

# After its grace a kernel is gone at once; a loaded machine may take longer to show it.
SLACK_S = 60.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
async def runtime(root: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(root) as ready:
        yield ready


async def test_a_flood_of_output_stays_within_its_limit_on_disk(runtime: ProcessRuntime, root: Path) -> None:
    limit = 256 << 10
    flood = "import sys\nwhile True:\n    sys.stdout.write('x' * 65536)"
    await runtime.create(launch("k", flood, log_bytes_max=limit))
    folder = place(root, "k") / "log"

    async def has_dropped() -> bool:
        return (await runtime.read_log(KernelId("k"), 1, offset=0, limit=1)).offset > 4 * limit

    await until(has_dropped)
    for _ in range(20):
        assert sum(_size(file) for file in folder.iterdir()) <= limit


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["/usr/bin/env", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("nothing may be mounted here")
    yield disk
    subprocess.run(["/usr/bin/env", "umount", "--lazy", str(disk)], check=True)


@needs_root
async def test_a_full_disk_costs_a_kernel_its_log_and_nothing_else(small_disk: Path) -> None:
    speaks = "import sys, time\nfor _ in range(64):\n    sys.stdout.write('x' * 65536)\n    sys.stdout.flush()\n"
    async with runtime_in(small_disk / "root") as runtime:
        await runtime.create(launch("ends", speaks + "sys.exit(5)"))
        over = await ended(runtime, "ends")
        assert (over.exit_code, over.reason) == (5, "log disk full")
        await runtime.forget(KernelId("ends"), 1)
        await runtime.create(launch("lives", speaks + "time.sleep(600)"))

        async def is_full() -> bool:
            return (await seen(runtime, "lives")).reason == "log disk full"

        await until(is_full)
        assert (await seen(runtime, "lives")).state is KernelState.RUNNING
        await runtime.stop(KernelId("lives"), 1, grace_s=SLACK_S)
        assert (await ended(runtime, "lives")).exit_code == 143


@needs_root
async def test_a_kernel_that_finds_no_place_is_refused_and_nothing_runs(small_disk: Path) -> None:
    async with runtime_in(small_disk / "root") as runtime:
        (small_disk / "ballast").write_bytes(b"x" * (900 << 10))
        with pytest.raises(RuntimeFailure):
            await runtime.create(launch("k", SLEEP, files={"large": "x" * (500 << 10)}))
        assert await runtime.observe() == []


async def test_without_a_free_descriptor_a_kernel_is_refused_and_may_start_later(runtime: ProcessRuntime) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(4):
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        try:
            for _ in range(spare):
                os.close(taken.pop())
            with pytest.raises(RuntimeFailure, match="Too many open files"):
                await runtime.create(launch("k", SLEEP))
        finally:
            for one in taken:
                os.close(one)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await runtime.observe() == []
    await runtime.create(launch("k", SLEEP))
    assert (await seen(runtime, "k")).state is KernelState.RUNNING


async def test_a_link_or_a_pipe_in_place_of_a_log_is_not_followed(runtime: ProcessRuntime, root: Path) -> None:
    secret = root.parent / "secret"
    secret.write_text("secret")
    segment = "0" * 20
    for name, replace in (("link", f"os.symlink({str(secret)!r}, segment)"), ("pipe", "os.mkfifo(segment)")):
        script = f"import os, time\nprint('up', flush=True)\nsegment = '../log/{segment}'\n"
        script += "while not os.path.exists(segment):\n    time.sleep(0.001)\n"
        await runtime.create(launch(name, script + f"os.unlink(segment)\n{replace}"))
        await ended(runtime, name)
        async with asyncio.timeout(SLACK_S):
            part = await runtime.read_log(KernelId(name), 1, offset=0, limit=100)
        assert part.data == b""


async def test_forgetting_a_kernel_removes_nothing_outside_its_folder(runtime: ProcessRuntime, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    script = f"import os\nos.symlink({str(outside)!r}, 'out')\nos.makedirs('shut/below')\nos.chmod('shut', 0)"
    await runtime.create(launch("k", script, mounts=(MountEntry(str(outside), str(outside)),)))
    assert (await ended(runtime, "k")).exit_code == 0
    await runtime.forget(KernelId("k"), 1)
    assert (outside / "precious").read_text() == "precious"
    assert list((root / "kernels").iterdir()) == []


@pytest.mark.parametrize(
    "mount",
    [
        MountEntry("/there/is/no/such/folder", "/data"),
        MountEntry("/usr", "/etc/mounted"),
        MountEntry("/usr", "/"),
        MountEntry("/usr", "/data"),
    ],
)
async def test_a_mount_that_reaches_out_is_refused(runtime: ProcessRuntime, mount: MountEntry) -> None:
    with pytest.raises(RuntimeFailure):
        await runtime.create(launch("k", "pass", mounts=(mount,)))
    assert await runtime.observe() == []
