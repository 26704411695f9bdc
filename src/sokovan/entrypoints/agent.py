"""An agent on this machine: found out, put together, and run until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.random_source import fraction, secret_text
from sokovan.adapters.process.isolation.confinement import Confinement
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.agent.inventory import Inventory, InventoryOptions, take_inventory
from sokovan.agent.journal import Journal
from sokovan.agent.link.manager_link import ManagerAddress
from sokovan.agent.runner import AgentEnvironment, AgentRunner
from sokovan.agent.watcher import WatchOptions

JOURNAL = "journal"
IDENTITY = "identity"
KERNELS = "kernels"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What an operator says of an agent; `root` is its folder, private to it."""

    manager: str
    token: str = field(repr=False)
    root: Path = Path()
    name: str = ""
    scaling_group: str = "default"
    fake_gpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentParts:
    """An agent that is ready to run, and what there is to say about it."""

    inventory: Inventory
    runtime: ProcessRuntime
    runner: AgentRunner
    address: ManagerAddress
    confinement: Confinement

    def in_words(self) -> str:
        """What this agent has, and what holds its kernels."""
        slots = self.inventory.slots
        devices = sum(amount for slot, amount in slots.items() if slot not in {"cpu", "mem"})
        amounts = f"{slots['cpu'] / 1000:g} cpu, {slots['mem'] / (1 << 30):.1f} GiB, {devices} devices"
        return f"{self.inventory.agent_id}: {amounts}; {self.confinement.in_words()}"

    async def run(self) -> None:
        """Work until cancelled; kernels go on after that."""
        await self.runner.run([self.address])


async def agent_of(options: AgentOptions, stack: contextlib.ExitStack, *, tell: Callable[[str], None]) -> AgentParts:
    """Find out what this machine has, and put an agent together on it.

    What must be closed goes onto `stack`. Raises JournalInUse, RuntimeFailure.
    """
    clock = SystemClock()
    journal = stack.enter_context(contextlib.closing(Journal.open(options.root / JOURNAL)))
    runtime = ProcessRuntime(options.root / KERNELS, clock, hidden=(options.root.parent,))
    stack.callback(runtime.close)
    held = await runtime.confinement()
    wish = InventoryOptions(
        agent_id=options.name,
        scaling_group=options.scaling_group,
        labels={**held.labels(), **options.labels},
        fake_gpus=options.fake_gpus,
    )
    found = await asyncio.to_thread(take_inventory, wish)
    inventory = replace(found, identity=kept_identity(options.root / IDENTITY))
    watch = WatchOptions(changes=runtime.changes)
    around = AgentEnvironment(root=options.root, clock=clock, jitter=fraction, log=tell, watch=watch)
    runner = AgentRunner(inventory, runtime, journal, around)
    address = ManagerAddress(options.manager, options.token)
    return AgentParts(inventory, runtime, runner, address, held)


def kept_identity(path: Path) -> str:
    """What tells the agent of this folder from any other, made once.

    Whoever asks holds the journal, so that nobody else makes one. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        known = path.read_text(encoding="utf-8").strip()
        if known:
            return known
    made = secret_text(16)
    write_whole(path, f"{made}\n".encode())
    return made


def run_agent(options: AgentOptions, tell: Callable[[str], None]) -> int:
    """Run an agent until it is told to stop; its kernels go on."""

    async def work() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        with contextlib.ExitStack() as stack:
            parts = await agent_of(options, stack, tell=tell)
            tell(f"agent {parts.inventory.agent_id} dials {options.manager}; {parts.confinement.in_words()}")
            running = asyncio.create_task(parts.run())
            waiting = asyncio.create_task(stopped.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    asyncio.run(work())
    return 0
