"""A kernel that leaves control is ended, and its slots are freed with a proof only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.adapters.process.shim import processes
from sokovan.agent.watcher import WatchOptions
from sokovan.domain.ids import KernelId
from tests.integration.agent_rig import AGENT, Agent, Manager, Register, comes_true
from tests.kernels import launch, runtime_in

# Removes its own folder, forgets its variables and closes its output; says its number elsewhere.
REMOVES_ITS_FOLDER = """
import os, shutil, sys
place = os.path.dirname(os.getcwd())
note = os.open(PLACE, os.O_WRONLY | os.O_CREAT)
os.write(note, str(os.getpid()).encode())
shutil.rmtree(place)
nothing = os.open("/dev/null", os.O_RDWR)
for stream in range(3):
    os.dup2(nothing, stream)
os.execve(sys.executable, ["x", "-I", "-c", "import time; time.sleep(600)"], {})
"""


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(tmp_path / "root") as ready:
        yield ready


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    made = Manager(Register())
    await made.start()
    yield made
    await made.stop()


async def test_a_kernel_that_removes_its_own_folder_is_ended_and_its_end_is_proved(
    runtime: ProcessRuntime, manager: Manager, tmp_path: Path
) -> None:
    agent = Agent(tmp_path / "agent", manager.address, runtime=runtime, watch=WatchOptions(changes=runtime.changes))
    await comes_true(lambda: AGENT in manager.states)
    note = tmp_path / "note"
    script = REMOVES_ITS_FOLDER.replace("PLACE", repr(str(note)))
    await manager.agents.create_kernel(AGENT, 1, launch("k", script, slots={"cpu": 500}))

    await comes_true(lambda: (report := manager.report("k")) is not None and report.exit_code == 137)
    assert processes.look_up(int(note.read_text())) is None
    proof = await manager.agents.stop_kernel(AGENT, 1, KernelId("k"), 1, grace_s=0)
    assert proof.gone
    await agent.stop()
