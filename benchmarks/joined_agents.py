"""Many agents in one process, each joined and linked over TLS like one of another machine.

Links, journals and the supervisor are those of real agents. The runtime only remembers its
kernels, which run until they are stopped: no process is started for them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NoReturn

import httpx2

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.random_source import fraction
from sokovan.agent.inventory import Inventory
from sokovan.agent.journal import Journal
from sokovan.agent.runner import AgentEnvironment, AgentRunner
from sokovan.agent.watcher import WatchOptions
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.slots import ResourceSlot
from sokovan.entrypoints.joining.joined_agent import join_machine
from sokovan.ports.runtime import KILLED, KernelState, LogPart, Observation, RuntimeFailure
from sokovan.wire.frames import CreateKernel

SLOTS = {"cpu": 64_000, "mem": 256 << 30}
JOINING_AT_ONCE = 8


class RememberedKernels:
    """The KernelRuntime port without processes."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[KernelId, int], Observation] = {}
        self._changed = asyncio.Event()

    async def changes(self) -> None:
        """Wait until a kernel has changed."""
        await self._changed.wait()
        self._changed.clear()

    async def has_image(self, image: str) -> bool:
        """Every image is ready."""
        return bool(image)

    async def prepare_image(self, image: str, progress: Callable[[str], None]) -> None:
        """Every image is ready."""

    async def create(self, launch: CreateKernel) -> str:
        """Remember a kernel."""
        self._set(Observation(KernelId(launch.kernel_id), launch.attempt, KernelState.RUNNING))
        return ""

    async def stop(self, kernel_id: KernelId, attempt: int, *, grace_s: float, notice: str = "") -> None:
        """End a kernel at once."""
        del grace_s, notice
        if (kernel_id, attempt) in self._kernels:
            self._set(Observation(kernel_id, attempt, KernelState.EXITED, exit_code=KILLED))

    async def observe(self) -> Sequence[Observation]:
        """The kernels that were not forgotten."""
        return list(self._kernels.values())

    async def forget(self, kernel_id: KernelId, attempt: int) -> None:
        """Forget a kernel."""
        self._kernels.pop((kernel_id, attempt), None)

    async def read_log(self, kernel_id: KernelId, attempt: int, *, offset: int, limit: int) -> LogPart:
        """No kernel has output."""
        del kernel_id, attempt, limit
        return LogPart(offset, b"")

    async def end_remains(self, kernel_id: KernelId, attempt: int, traces: str) -> str:
        """Nothing runs."""
        del kernel_id, attempt, traces
        return ""

    def execute(self, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool) -> NoReturn:
        """No command can run."""
        raise RuntimeFailure(f"{kernel_id} ({attempt}) is not a process: {command} cannot run ({terminal})")

    def connect(self, kernel_id: KernelId, attempt: int, port: int) -> NoReturn:
        """Nothing listens."""
        raise RuntimeFailure(f"{kernel_id} ({attempt}) does not listen on {port}")

    def _set(self, found: Observation) -> None:
        self._kernels[found.kernel_id, found.attempt] = found
        self._changed.set()


def new_token(api: str, key: str) -> dict[str, str]:
    """A join token of a manager."""
    headers = {"Authorization": f"Bearer {key}"}
    found: dict[str, str] = httpx2.post(f"{api}/api/v1/join-tokens", json={}, headers=headers, timeout=60).json()
    return found


async def run_agent(root: Path, name: str, api: str, key: str, *, admitted: asyncio.Semaphore) -> None:
    """Join one agent and run it until cancelled."""
    async with admitted:
        token = await asyncio.to_thread(new_token, api, key)
        joined = await join_machine(
            token["url"], token=token["token"], authority=token["authority"], agent_id=name, folder=root / "joined"
        )
    addresses = joined.addresses(joined.context())
    runtime = RememberedKernels()
    inventory = Inventory(AgentId(name), ResourceSlot(SLOTS), "x86_64", kernels_max=4096, identity=name)
    environment = AgentEnvironment(
        root=root, clock=SystemClock(), jitter=fraction, watch=WatchOptions(changes=runtime.changes)
    )
    with ExitStack() as stack:
        journal = stack.enter_context(closing(Journal.open(root / "journal")))
        await AgentRunner(inventory, runtime, journal, environment).run(addresses)


async def run_all(root: Path, count: int, api: str, key: str) -> None:
    """Run all agents until cancelled."""
    admitted = asyncio.Semaphore(JOINING_AT_ONCE)
    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            folder = root / f"n{number}"
            folder.mkdir(parents=True)
            tasks.create_task(run_agent(folder, f"n{number}", api, key, admitted=admitted))


if __name__ == "__main__":
    folder, count, api, key = sys.argv[1:]
    asyncio.run(run_all(Path(folder), int(count), api, key))
