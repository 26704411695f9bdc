"""Ports of another thread's event loop, as if they were here.

The manager has an event loop of its own, so that a long scheduling cycle never makes
the API wait. What the API needs of it is called over there, and waited for here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Self, TypeVar

from sokovan.domain.events import Event
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentGateway, GoneProof, ImageReport
from sokovan.ports.agent_states import AgentState, AgentStateCache
from sokovan.ports.events import BusUnavailable, Delivery, EventBus, Subscription
from sokovan.ports.hints import Hints
from sokovan.ports.runtime import KernelExecution, LogPart
from sokovan.wire.frames import CreateKernel

R = TypeVar("R")


class ManagerGone(BusUnavailable):
    """The other event loop has ended; nobody there will answer any more."""

    code = "manager-gone"
    hint = "look into the log of the server for the reason, and start it again; what was stored is safe"


class LoopProxy:
    """The way into another event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun: set[asyncio.Future[None]] = set()

    async def call(self, work: Callable[[], Awaitable[R]]) -> R:
        """Do `work` over there and wait for it; who gives up here, ends it there.

        Raises ManagerGone.
        """

        async def done() -> R:
            return await work()

        begun = done()
        try:
            answer = asyncio.run_coroutine_threadsafe(begun, self._loop)
        except RuntimeError as error:  # the loop is closed
            begun.close()
            raise ManagerGone("the manager has ended") from error
        return await asyncio.wrap_future(answer)

    def tell(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have `work` done over there, and do not wait for it. Raises ManagerGone."""

        def begin() -> None:
            task = asyncio.ensure_future(work())
            self._begun.add(task)
            task.add_done_callback(self._begun.discard)

        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError as error:  # the loop is closed
            raise ManagerGone("the manager has ended") from error


class HintsProxy:
    """The Hints port of another loop."""

    def __init__(self, crossing: LoopProxy, hints: Hints) -> None:
        self._crossing, self._hints = crossing, hints
        self._on_their_way: set[str] = set()

    async def set(self, name: str) -> None:
        """See the port. Nobody waits for it; one that has not arrived yet is enough."""
        if name in self._on_their_way:
            return
        self._on_their_way.add(name)
        try:
            self._crossing.tell(lambda: self._arrived(name))
        except ManagerGone:
            self._on_their_way.discard(name)
            raise

    async def _arrived(self, name: str) -> None:
        # Before it is set: whoever comes from now on says it again.
        self._on_their_way.discard(name)
        await self._hints.set(name)

    async def take(self, name: str) -> bool:
        """See the port."""
        return await self._crossing.call(lambda: self._hints.take(name))

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """See the port."""
        return await self._crossing.call(lambda: self._hints.wait(names, timeout_s=timeout_s))

    async def close(self) -> None:
        """See the port. The other side closes what is its own."""


class SubscriptionProxy:
    """A subscription of another loop."""

    def __init__(self, crossing: LoopProxy, subscription: Subscription) -> None:
        self._crossing, self._subscription = crossing, subscription

    async def receive(self, *, limit: int, wait_s: float) -> Delivery:
        """See the port."""
        return await self._crossing.call(lambda: self._subscription.receive(limit=limit, wait_s=wait_s))

    async def acknowledge(self, delivery: Delivery) -> None:
        """See the port."""
        await self._crossing.call(lambda: self._subscription.acknowledge(delivery))

    async def close(self) -> None:
        """See the port."""
        await self._crossing.call(self._subscription.close)


class EventsProxy:
    """The EventBus port of another loop."""

    def __init__(self, crossing: LoopProxy, events: EventBus) -> None:
        self._crossing, self._events = crossing, events

    async def publish(self, events: Sequence[Event]) -> None:
        """See the port."""
        await self._crossing.call(lambda: self._events.publish(events))

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """See the port."""
        found = await self._crossing.call(lambda: self._events.subscribe(group=group, consumer=consumer))
        return SubscriptionProxy(self._crossing, found)

    async def close(self) -> None:
        """See the port. The other side closes what is its own."""


class AgentStatesProxy:
    """The AgentStateCache port of another loop."""

    def __init__(self, crossing: LoopProxy, states: AgentStateCache) -> None:
        self._crossing, self._states = crossing, states

    async def put(self, state: AgentState, *, ttl_s: float) -> bool:
        """See the port."""
        return await self._crossing.call(lambda: self._states.put(state, ttl_s=ttl_s))

    async def get(self, agent_id: AgentId) -> AgentState | None:
        """See the port."""
        return await self._crossing.call(lambda: self._states.get(agent_id))

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        """See the port."""
        return await self._crossing.call(self._states.fresh)

    async def drop(self, agent_id: AgentId) -> None:
        """See the port."""
        await self._crossing.call(lambda: self._states.drop(agent_id))

    async def close(self) -> None:
        """See the port. The other side closes what is its own."""


class ExecutionProxy:
    """An execution of another loop."""

    def __init__(self, crossing: LoopProxy, execution: Callable[[], KernelExecution]) -> None:
        self._crossing, self._make = crossing, execution
        self._execution: KernelExecution | None = None

    async def __aenter__(self) -> Self:
        """See the port."""
        self._execution = self._make()
        await self._crossing.call(self._execution.__aenter__)
        return self

    async def __aexit__(self, *details: object) -> None:
        """See the port."""
        await self._crossing.call(lambda: self._entered.__aexit__(*details))

    async def write(self, data: bytes) -> None:
        """See the port."""
        await self._crossing.call(lambda: self._entered.write(data))

    async def resize(self, *, rows: int, columns: int) -> None:
        """See the port."""
        await self._crossing.call(lambda: self._entered.resize(rows=rows, columns=columns))

    async def output(self) -> AsyncIterator[bytes]:
        """See the port."""
        pieces = aiter(self._entered.output())

        async def next_piece() -> bytes | None:
            return await anext(pieces, None)

        while (piece := await self._crossing.call(next_piece)) is not None:
            yield piece

    async def wait(self) -> int:
        """See the port."""
        return await self._crossing.call(self._entered.wait)

    @property
    def _entered(self) -> KernelExecution:
        if self._execution is None:
            raise RuntimeError("the execution was not entered")
        return self._execution


class GatewayProxy:
    """The AgentGateway port of another loop."""

    def __init__(self, crossing: LoopProxy, gateway: AgentGateway) -> None:
        self._crossing, self._gateway = crossing, gateway

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port."""
        return await self._crossing.call(lambda: self._gateway.prepare_image(agent_id, incarnation, image))

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        await self._crossing.call(lambda: self._gateway.create_kernel(agent_id, incarnation, launch))

    async def stop_kernel(
        self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int, *, grace_s: float
    ) -> GoneProof:
        """See the port."""
        return await self._crossing.call(
            lambda: self._gateway.stop_kernel(agent_id, incarnation, kernel_id, attempt, grace_s=grace_s)
        )

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        await self._crossing.call(lambda: self._gateway.forget_kernel(agent_id, incarnation, kernel_id, attempt))

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """See the port."""
        return await self._crossing.call(
            lambda: self._gateway.read_log(agent_id, kernel_id, attempt, offset=offset, limit=limit)
        )

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """See the port."""
        return ExecutionProxy(
            self._crossing, lambda: self._gateway.execute(agent_id, kernel_id, attempt, command, terminal=terminal)
        )

    def connected(self, agent_id: AgentId) -> bool:
        """See the port. Reads a dictionary, which needs no crossing."""
        return self._gateway.connected(agent_id)
