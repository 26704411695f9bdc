"""An agent as a process of its own: `python -m tests.integration.agent_process ROOT PORT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.integration.agent_rig import Agent, Manager, Register


async def work(root: Path, port: int) -> None:
    Agent(root, Manager(Register(), port=port).address)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
