"""The process that turns copies of itself into shims."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import sokovan
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.fork_server import FORK_SERVER
from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim.state_files import read_record
from sokovan.ports.runtime import KernelState
from tests.kernels import SLEEP, ended, launch, place, runtime_in, seen, until
from tests.unit.adapters.process.shim.test_main import HEAVY

LIMIT_S = 60.0

ROOT = str(Path(sokovan.__file__).parent.parent)


def test_a_fork_server_imports_little_more_than_a_shim() -> None:
    load = "import sokovan.adapters.process.shim.fork_server; print(*sys.modules)"
    script = f"import sys; sys.path.append(sys.argv[1]); {load}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script, ROOT], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def open_files(pid: int) -> set[str]:
    return {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}


async def test_a_shim_from_a_fork_server_is_detached_and_holds_none_of_its_files(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", SLEEP))
        with opened(place(tmp_path, "k")) as folder:
            record = read_record(folder, "state.json")
        assert record is not None
        shim = processes.look_up(record["shim_pid"])
        assert shim is not None
        assert shim.session == shim.pid, "it is in the session of the fork_server"
        # It releases its plan right after it has answered.
        async with asyncio.timeout(LIMIT_S):
            while [name for name in open_files(shim.pid) if name.startswith(("/memfd", "/dev/pts"))]:
                await SystemClock().sleep(0.01)
        assert processes.read_text(f"/proc/{shim.pid}/environ") == ""


@pytest.mark.slow
async def test_a_shim_outlives_its_fork_server_and_one_that_ends_before_leaves_no_process(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", SLEEP))
        await runtime.create(launch("short", "pass"))
        await ended(runtime, "short")
        shims = []
        for name in ("k", "short"):
            with opened(place(tmp_path, name)) as folder:
                shims.append((read_record(folder, "state.json") or {})["shim_pid"])

        async def is_gone() -> bool:
            return processes.look_up(shims[1]) is None

        await until(is_gone)
        FORK_SERVER.close()
        shim = processes.look_up(shims[0])
        assert shim is not None

        async def is_alone() -> bool:
            found = processes.look_up(shims[0])
            return found is not None and "shim.fork_server" not in processes.read_text(f"/proc/{found.parent}/cmdline")

        await until(is_alone)
        assert (await seen(runtime, "k")).state is KernelState.RUNNING
