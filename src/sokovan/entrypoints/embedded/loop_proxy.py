"""Proxies for ports that live in another thread's event loop.

The manager has its own event loop, so that a long scheduling cycle never blocks the
API. The API calls its ports through these proxies and awaits the results.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Self, TypeVar

from sokovan.domain.events import Event
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentGateway, GoneProof, ImageReport
from sokovan.ports.agent_states import AgentState, AgentStateCache
from sokovan.ports.events import BusUnavailable, Delivery, EventBus, Subscription
from sokovan.ports.hints import Hints
from sokovan.ports.kernel_files import AgentFiles, FileListing, FilePart, KernelPath, UploadPlacement
from sokovan.ports.runtime import KernelExecution, KernelUse, LogPart
from sokovan.wire.frames import CreateKernel

R = TypeVar("R")


class ManagerGone(BusUnavailable):
    """The manager's event loop has ended, so that its ports no longer answer."""

    code = "manager-gone"
    hint = "see the server's log for the reason, and start it again; stored data is safe"


class LoopProxy:
    """Calls coroutines in another thread's event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Future[None]] = set()

    async def call(self, work: Callable[[], Awaitable[R]]) -> R:
        """Run `work` in the other loop and wait for it; cancellation is forwarded.

        Raises ManagerGone.
        """

        async def done() -> R:
            return await work()

        coroutine = done()
        try:
            answer = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:  # the loop is closed
            coroutine.close()
            raise ManagerGone("the manager has ended") from error
        return await asyncio.wrap_future(answer)

    def post(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` in the other loop without waiting. Raises ManagerGone."""

        def begin() -> None:
            task = asyncio.ensure_future(work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError as error:  # the loop is closed
            raise ManagerGone("the manager has ended") from error


class LoopNudge:
    """Calls a function in another loop, once for all calls until it runs.

    A loop that has ended is not woken: what was written is committed all the same.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
        self._loop, self._function = loop, function
        self._posted = False

    def __call__(self) -> None:
        """Let the function be called soon."""
        if not self._posted:
            self._posted = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._posted = False  # before the call, so that none is lost that comes during it
        self._function()


class HintsProxy:
    """Proxy of the Hints port."""

    def __init__(self, proxy: LoopProxy, hints: Hints) -> None:
        self._proxy, self._hints = proxy, hints
        self._posted: set[str] = set()

    async def set(self, name: str) -> None:
        """See the port. Does not wait; a hint that is already posted is not posted again."""
        if name in self._posted:
            return
        self._posted.add(name)
        try:
            self._proxy.post(lambda: self._deliver(name))
        except ManagerGone:
            self._posted.discard(name)
            raise

    async def _deliver(self, name: str) -> None:
        # Before it is set, so that a later `set` posts it again.
        self._posted.discard(name)
        await self._hints.set(name)

    async def take(self, name: str) -> bool:
        """See the port."""
        return await self._proxy.call(lambda: self._hints.take(name))

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """See the port."""
        return await self._proxy.call(lambda: self._hints.wait(names, timeout_s=timeout_s))

    async def close(self) -> None:
        """Do nothing; the manager closes the port."""


class SubscriptionProxy:
    """Proxy of a subscription."""

    def __init__(self, proxy: LoopProxy, subscription: Subscription) -> None:
        self._proxy, self._subscription = proxy, subscription

    async def receive(self, *, limit: int, wait_s: float) -> Delivery:
        """See the port."""
        return await self._proxy.call(lambda: self._subscription.receive(limit=limit, wait_s=wait_s))

    async def acknowledge(self, delivery: Delivery) -> None:
        """See the port."""
        await self._proxy.call(lambda: self._subscription.acknowledge(delivery))

    async def close(self) -> None:
        """See the port."""
        await self._proxy.call(self._subscription.close)


class EventsProxy:
    """Proxy of the EventBus port."""

    def __init__(self, proxy: LoopProxy, events: EventBus) -> None:
        self._proxy, self._events = proxy, events

    async def publish(self, events: Sequence[Event]) -> None:
        """See the port."""
        await self._proxy.call(lambda: self._events.publish(events))

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """See the port."""
        found = await self._proxy.call(lambda: self._events.subscribe(group=group, consumer=consumer))
        return SubscriptionProxy(self._proxy, found)

    async def close(self) -> None:
        """Do nothing; the manager closes the port."""


class AgentStatesProxy:
    """Proxy of the AgentStateCache port."""

    def __init__(self, proxy: LoopProxy, states: AgentStateCache) -> None:
        self._proxy, self._states = proxy, states

    async def put(self, state: AgentState, *, ttl_s: float) -> bool:
        """See the port."""
        return await self._proxy.call(lambda: self._states.put(state, ttl_s=ttl_s))

    async def get(self, agent_id: AgentId) -> AgentState | None:
        """See the port."""
        return await self._proxy.call(lambda: self._states.get(agent_id))

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        """See the port."""
        return await self._proxy.call(self._states.fresh)

    async def drop(self, agent_id: AgentId) -> None:
        """See the port."""
        await self._proxy.call(lambda: self._states.drop(agent_id))

    async def close(self) -> None:
        """Do nothing; the manager closes the port."""


class ExecutionProxy:
    """Proxy of a command execution."""

    def __init__(self, proxy: LoopProxy, execution: Callable[[], KernelExecution]) -> None:
        self._proxy, self._make = proxy, execution
        self._execution: KernelExecution | None = None

    async def __aenter__(self) -> Self:
        """See the port."""
        self._execution = self._make()
        await self._proxy.call(self._execution.__aenter__)
        return self

    async def __aexit__(self, *details: object) -> None:
        """See the port."""
        await self._proxy.call(lambda: self._entered.__aexit__(*details))

    async def write(self, data: bytes) -> None:
        """See the port."""
        await self._proxy.call(lambda: self._entered.write(data))

    async def resize(self, *, rows: int, columns: int) -> None:
        """See the port."""
        await self._proxy.call(lambda: self._entered.resize(rows=rows, columns=columns))

    async def output(self) -> AsyncIterator[bytes]:
        """See the port."""
        pieces = aiter(self._entered.output())

        async def next_piece() -> bytes | None:
            return await anext(pieces, None)

        while (piece := await self._proxy.call(next_piece)) is not None:
            yield piece

    async def wait(self) -> int:
        """See the port."""
        return await self._proxy.call(self._entered.wait)

    @property
    def _entered(self) -> KernelExecution:
        if self._execution is None:
            raise RuntimeError("the execution was not entered")
        return self._execution


class GatewayProxy:
    """Proxy of the AgentGateway port."""

    def __init__(self, proxy: LoopProxy, gateway: AgentGateway) -> None:
        self._proxy, self._gateway = proxy, gateway

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port."""
        return await self._proxy.call(lambda: self._gateway.prepare_image(agent_id, incarnation, image))

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        await self._proxy.call(lambda: self._gateway.create_kernel(agent_id, incarnation, launch))

    async def stop_kernel(
        self,
        agent_id: AgentId,
        incarnation: int,
        kernel_id: KernelId,
        attempt: int,
        *,
        grace_s: float,
        notice: str = "",
    ) -> GoneProof:
        """See the port."""
        return await self._proxy.call(
            lambda: self._gateway.stop_kernel(agent_id, incarnation, kernel_id, attempt, grace_s=grace_s, notice=notice)
        )

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        await self._proxy.call(lambda: self._gateway.forget_kernel(agent_id, incarnation, kernel_id, attempt))

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """See the port."""
        return await self._proxy.call(
            lambda: self._gateway.read_log(agent_id, kernel_id, attempt, offset=offset, limit=limit)
        )

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        """See the port."""
        return await self._proxy.call(lambda: self._gateway.measure(agent_id, kernel_id, attempt))

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """See the port."""
        return ExecutionProxy(
            self._proxy, lambda: self._gateway.execute(agent_id, kernel_id, attempt, command, terminal=terminal)
        )

    def connect(self, agent_id: AgentId, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        """See the port."""
        return ExecutionProxy(self._proxy, lambda: self._gateway.connect(agent_id, kernel_id, attempt, port))

    def connected(self, agent_id: AgentId) -> bool:
        """See the port. Reads a dictionary, which is safe from any thread."""
        return self._gateway.connected(agent_id)


class FilesProxy:
    """Proxy of the AgentFiles port."""

    def __init__(self, proxy: LoopProxy, files: AgentFiles) -> None:
        self._proxy, self._files = proxy, files

    async def list(self, agent_id: AgentId, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        """See the port."""
        return await self._proxy.call(lambda: self._files.list(agent_id, place, after=after, files_max=files_max))

    async def read(self, agent_id: AgentId, place: KernelPath, *, offset: int, limit: int, mark: str) -> FilePart:
        """See the port."""
        return await self._proxy.call(lambda: self._files.read(agent_id, place, offset=offset, limit=limit, mark=mark))

    async def put(self, agent_id: AgentId, place: KernelPath, upload: str) -> UploadPlacement:
        """See the port."""
        return await self._proxy.call(lambda: self._files.put(agent_id, place, upload))
