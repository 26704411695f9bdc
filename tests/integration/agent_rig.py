"""Managers and agents in a test, with real WebSockets between them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from sokovan.adapters.agentlink.connection import LinkLimits
from sokovan.adapters.agentlink.duplex import Duplex
from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.listener import LinkListener, serve_links
from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.inventory import Inventory
from sokovan.agent.journal import Journal
from sokovan.agent.link.manager_addresses import ManagerAddresses
from sokovan.agent.link.manager_link import ManagerAddress
from sokovan.agent.runner import AgentEnvironment, AgentRunner
from sokovan.agent.watcher import WatchOptions
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.records import Device
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.agent_states import AgentState, KernelReport
from sokovan.ports.runtime import KernelRuntime
from sokovan.testing.clock import until
from sokovan.wire.frames import SUPERSEDED, CreateKernel, Hello, HelloRefused, Welcome
from tests.integration.tiny_runtime import TinyRuntime

AGENT = AgentId("a1")
TOKEN = "let-me-in"  # noqa: S105  # a test's own
# No link ends, and no request fails, because a busy machine takes some seconds.
LIMITS = LinkLimits(hello_s=60, admission_s=60, send_s=60, request_s=60, heartbeats_missed=120)
INVENTORY = Inventory(
    agent_id=AGENT,
    slots=ResourceSlot({"cpu": 4000, "cuda.device": 2}),
    architecture="x86_64",
    devices=(Device("fake-0", "cuda.device"), Device("fake-1", "cuda.device")),
)


class Register:
    """The state that a store would hold: it outlives managers."""

    def __init__(self) -> None:
        self.incarnations: dict[str, int] = {}
        self.hellos: list[Hello] = []
        self.draining = False
        self.managers: tuple[str, ...] = ()

    async def admit(self, hello: Hello, token: str) -> Welcome | HelloRefused:
        if token != TOKEN:
            return HelloRefused(code="unauthorized", message="who are you?", final=True)
        self.hellos.append(hello)
        known = self.incarnations.get(hello.agent_id, 0)
        if 0 < hello.incarnation < known:
            return HelloRefused(code=SUPERSEDED, message="another process is this agent now", final=True)
        if hello.incarnation != known or known == 0:
            known = self.incarnations[hello.agent_id] = known + 1
        return Welcome(incarnation=known, heartbeat_s=0.5, draining=self.draining, managers=self.managers)


class NotingAgents(LinkedAgents):
    """Remembers why links ended."""

    ends: list[str]

    async def serve(self, duplex: Duplex, token: str) -> str:
        self.ends.append(await super().serve(duplex, token))
        return self.ends[-1]


class Manager:
    """One manager, which records what it receives."""

    def __init__(self, register: Register, *, port: int = 0) -> None:
        self.agents = NotingAgents(SystemClock(), admit=register.admit, on_heartbeat=self._heard, limits=LIMITS)
        self.states: dict[AgentId, AgentState] = {}
        self.images: tuple[ImageReport, ...] = ()
        self.ends = self.agents.ends = []
        self.port = port
        self._listening = AsyncExitStack()
        self._listener: LinkListener | None = None

    @property
    def address(self) -> ManagerAddress:
        return ManagerAddress(f"ws://127.0.0.1:{self.port}", TOKEN)

    async def start(self) -> None:
        listening = serve_links(self.agents, host="127.0.0.1", port=self.port)
        self._listener = await self._listening.enter_async_context(listening)
        self.port = self._listener.port

    async def stop(self) -> None:
        await self._listening.aclose()

    def cut(self) -> None:
        """Close every connection without a frame."""
        assert self._listener is not None
        for socket in self._listener.server.connections:
            socket.transport.abort()

    async def _heard(self, agent_id: AgentId, state: AgentState, images: tuple[ImageReport, ...]) -> None:
        self.states[agent_id] = state
        self.images = images

    def report(self, name: str, attempt: int = 1) -> KernelReport | None:
        """The last report of the agent about a kernel."""
        state = self.states.get(AGENT)
        found = [
            report
            for report in (state.kernels if state else ())
            if (report.kernel_id, report.attempt) == (name, attempt)
        ]
        return found[0] if found else None


class Agent:
    """One agent in this process, on a runtime of the test's choice or on the tiny one."""

    def __init__(
        self,
        root: Path,
        *managers: ManagerAddress,
        addresses: ManagerAddresses | None = None,
        runtime: KernelRuntime | None = None,
        watch: WatchOptions | None = None,
    ) -> None:
        self.root = root
        self.runtime = TinyRuntime(root)
        self.logged: list[str] = []
        self._journal = Journal.open(root / "journal")
        self.runner = AgentRunner(
            INVENTORY,
            runtime or self.runtime,
            self._journal,
            AgentEnvironment(
                root=root,
                clock=SystemClock(),
                jitter=lambda: 0.0,
                log=self.logged.append,
                watch=watch or WatchOptions(),
            ),
        )
        self._task = asyncio.ensure_future(self.runner.run(addresses or managers))

    async def dies(self) -> None:
        """The agent works no more; its kernels go on."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def stop(self) -> None:
        """End the agent, and let another have its journal."""
        await self.dies()
        self._journal.close()


@asynccontextmanager
async def agent_process(
    root: Path, manager: Manager, *, kind: str = "tiny"
) -> AsyncIterator[asyncio.subprocess.Process]:
    """An agent in a process of its own, which can be killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.agent_process", str(root), str(manager.port), kind
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def comes_true(holds: Callable[[], object], *, limit_s: float = 60.0) -> None:
    """Wait until `holds`."""

    async def held() -> bool:
        return bool(holds())

    await until(held, elapse=SystemClock().sleep, limit_s=limit_s)


def launch(name: str, *command: str, attempt: int = 1, cpu: int = 500, image: str = "python") -> CreateKernel:
    """A kernel that runs `command`; for an hour, if nothing is said."""
    return CreateKernel(
        kernel_id=KernelId(name),
        attempt=attempt,
        session_id=SessionId("s1"),
        image=image,
        command=command or ("sleep", "3600"),
        slots={"cpu": cpu},
    )
