"""An agent as a process of its own: `python -m tests.integration.agent_process ROOT PORT tiny|process`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.agent.watcher import WatchOptions
from tests.integration.agent_rig import Agent, Manager, Register


async def work(root: Path, port: int, kind: str) -> None:
    address = Manager(Register(), port=port).address
    if kind == "process":
        runtime = ProcessRuntime(root / "machine", SystemClock(), bubblewrap="")
        Agent(root, address, runtime=runtime, watch=WatchOptions(changes=runtime.changes, ended=runtime.ended))
    else:
        Agent(root, address)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
