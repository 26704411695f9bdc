"""The manager: store, orchestrator, links of agents, in a thread of its own.

A scheduling cycle may take long, and the API must not wait for it; so the manager has
an event loop of its own, and the API reaches it by crossing over.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass

from sokovan.entrypoints.embedded.loop_proxy import (
    AgentStatesProxy,
    EventsProxy,
    GatewayProxy,
    HintsProxy,
    LoopProxy,
)
from sokovan.entrypoints.embedded.manager_runtime import ManagerOptions, ManagerRuntime, plant_at_work

STOP_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class ManagerPorts:
    """What the API needs of the manager, and where agents dial it."""

    hints: HintsProxy
    events: EventsProxy
    agents: AgentStatesProxy
    gateway: GatewayProxy
    link_port: int
    agent: str
    nudge: Callable[[], None]


class ControlPlane:
    """The manager's thread: started, used by crossing over, stopped."""

    def __init__(self, wish: ManagerOptions) -> None:
        self._wish = wish
        self._ready: Future[ManagerPorts] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="manager", daemon=True)

    def start(self) -> Future[ManagerPorts]:
        """Begin; the ports come when the manager works, or the reason why it does not."""
        self._thread.start()
        return self._ready

    def stop(self) -> None:
        """Let the round that is under way end, and wait for the thread."""
        if self._loop is not None and self._stopping is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001  # whoever waits for the manager hears why it ended
            if self._ready.done():
                self._wish.tell(f"the manager has ended: {error!r}")
            else:
                self._ready.set_exception(error)

    async def _work(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            plant = await plant_at_work(self._wish, stack)
            self._ready.set_result(_ports(plant, self._loop))
            await self._stopping.wait()


def _ports(plant: ManagerRuntime, loop: asyncio.AbstractEventLoop) -> ManagerPorts:
    crossing = LoopProxy(loop)

    def nudge() -> None:
        # A manager that has ended publishes no more; what was written is written all the same.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(plant.written)

    return ManagerPorts(
        hints=HintsProxy(crossing, plant.hints),
        events=EventsProxy(crossing, plant.events),
        agents=AgentStatesProxy(crossing, plant.agents),
        gateway=GatewayProxy(crossing, plant.gateway),
        link_port=plant.link_port,
        agent=plant.agent,
        nudge=nudge,
    )
