"""The process that turns copies of itself into shims."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import sokovan
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim.state_files import read_record
from tests.kernels import SLEEP, launch, place, runtime_in
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
        parent = processes.look_up(shim.parent)
        assert parent is None or "shim.fork_server" not in processes.read_text(f"/proc/{parent.pid}/cmdline")
        # It releases its plan right after it has answered.
        async with asyncio.timeout(LIMIT_S):
            while [name for name in open_files(shim.pid) if name.startswith(("/memfd", "/dev/pts"))]:
                await SystemClock().sleep(0.01)
        assert processes.read_text(f"/proc/{shim.pid}/environ") == ""
