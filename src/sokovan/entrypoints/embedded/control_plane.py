"""Runs the manager (store, orchestrator, agent links) in its own thread.

A scheduling cycle may take long, and the API must not wait for it; so the manager has
its own event loop, and the API calls it through proxies.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass

from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.entrypoints.embedded.background_tasks import ComponentEnded
from sokovan.entrypoints.embedded.loop_proxy import (
    AgentStatesProxy,
    EventsProxy,
    FilesProxy,
    GatewayProxy,
    HintsProxy,
    LoopNudge,
    LoopProxy,
)
from sokovan.entrypoints.embedded.manager_runtime import ManagerOptions, ManagerRuntime, start_manager
from sokovan.orchestrator.sessions.config import Timing
from sokovan.ports.agent_gateway import KernelGateway
from sokovan.ports.agent_states import AgentStateReader
from sokovan.ports.events import EventBus
from sokovan.ports.hints import Hints
from sokovan.ports.kernel_files import AgentFiles

STOP_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class ManagerPorts:
    """The manager's ports for the API, and the port for agent links."""

    hints: Hints
    events: EventBus
    agents: AgentStateReader
    gateway: KernelGateway
    files: AgentFiles
    link_port: int
    agent: str
    nudge: Callable[[], None]
    retime: Callable[[Timing], None]
    joining: JoinAddress | None = None
    disconnect: Callable[[str], None] = lambda _agent_id: None


class ControlPlane:
    """The manager's thread: start, use through proxies, stop."""

    def __init__(self, options: ManagerOptions) -> None:
        self._options = options
        self._ready: Future[ManagerPorts] = Future()
        # Done if the manager ended without being stopped, with the reason.
        self.ended: Future[None] = Future()
        self._failure: ComponentEnded | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="manager", daemon=True)

    def start(self) -> Future[ManagerPorts]:
        """Start the thread; the future gets the ports, or the error of a failed start."""
        self._thread.start()
        return self._ready

    def stop(self) -> None:
        """Let the current cycle end, and wait for the thread."""
        if self._loop is not None and self._stopping is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001  # passed to the caller that waits for the manager
            if self._ready.done():
                self._options.log(f"the manager has ended: {error!r}")
                self.ended.set_exception(error)
            else:
                self._ready.set_exception(error)

    async def _work(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            runtime = await start_manager(self._options, stack, self._fail)
            self._ready.set_result(_ports(runtime, self._loop))
            await self._stopping.wait()
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: ComponentEnded) -> None:
        """End the manager because of a part of it."""
        self._failure = self._failure or error
        if self._stopping is not None:
            self._stopping.set()


def _ports(runtime: ManagerRuntime, loop: asyncio.AbstractEventLoop) -> ManagerPorts:
    proxy = LoopProxy(loop)

    def retime(timing: Timing) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(runtime.retime, timing)

    def disconnect(agent_id: str) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(runtime.disconnect, agent_id)

    return ManagerPorts(
        hints=HintsProxy(proxy, runtime.hints),
        events=EventsProxy(proxy, runtime.events),
        agents=AgentStatesProxy(proxy, runtime.agents),
        gateway=GatewayProxy(proxy, runtime.gateway),
        files=FilesProxy(proxy, runtime.files),
        link_port=runtime.link_port,
        agent=runtime.agent,
        joining=runtime.joining,
        disconnect=disconnect,
        nudge=LoopNudge(loop, runtime.written),
        retime=retime,
    )
