"""Agents that have dialled in: at most one live link each, and requests over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from sokovan.adapters.agentlink import translation
from sokovan.adapters.agentlink.connection import AgentConnection, LinkLimits
from sokovan.adapters.agentlink.duplex import Duplex, Stream
from sokovan.adapters.agentlink.execution import LinkedExecution
from sokovan.adapters.agentlink.streams import PendingStreams
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageReport
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelExecution, LogPart
from sokovan.wire import frames
from sokovan.wire.frames import CreateKernel
from sokovan.wire.link_codec import MalformedFrame
from sokovan.wire.link_session import BUSY, LinkBusy, LinkNotOpen

# Takes an agent in, or says why not: it checks the credential, enrols the agent, and gives its incarnation.
Admit: TypeAlias = Callable[[frames.Hello, str], Awaitable[frames.Welcome | frames.HelloRefused]]
# Hears what an agent holds.
Heard: TypeAlias = Callable[[AgentId, AgentState, tuple[ImageReport, ...]], Awaitable[None]]

SUPERSEDED = "superseded"
UNAVAILABLE = "unavailable"

W = TypeVar("W", frames.Done, frames.KernelGone, frames.ImageStatus, frames.LogData)


def _say_nothing(_line: str) -> None:
    """Where nobody listens."""


class LinkedAgents:
    """The AgentGateway port over the links that agents have opened to this manager.

    `streams` are the sockets that agents were asked for; whoever accepts one hands it in.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        admit: Admit,
        heard: Heard,
        limits: LinkLimits | None = None,
        tell: Callable[[str], None] = _say_nothing,
    ) -> None:
        self._clock, self._admit, self._heard, self._tell = clock, admit, heard, tell
        self._limits = limits or LinkLimits()
        self._links: dict[AgentId, AgentConnection] = {}
        self._unadmitted: set[AgentConnection] = set()
        self.streams = PendingStreams()

    async def serve(self, duplex: Duplex, token: str) -> str:
        """Keep a link for as long as it lasts; why it ended. The caller then hangs up."""
        connection = AgentConnection(duplex, self._clock, self._limits)
        self._unadmitted.add(connection)
        try:
            await connection.run(lambda: self._talk(connection, token))
        finally:
            self._unadmitted.discard(connection)
        return connection.ended

    @property
    def is_crowded(self) -> bool:
        """Whether as many links wait to be admitted as may."""
        return len(self._unadmitted) >= self._limits.unadmitted_max

    def connected(self, agent_id: AgentId) -> bool:
        """Whether the agent has a link to this manager now."""
        return agent_id in self._links and self._links[agent_id].is_open

    def incarnation(self, agent_id: AgentId) -> int:
        """The incarnation that the agent was welcomed as; 0 if it has no link."""
        return self._links[agent_id].incarnation if self.connected(agent_id) else 0

    async def report_now(self, agent_id: AgentId) -> None:
        """Ask for a heartbeat before its time, if the agent is there."""
        if agent_id in self._links:
            await self._links[agent_id].report_now()

    def close(self) -> None:
        """Hang up on everybody."""
        for connection in list(self._links.values()):
            connection.close("the manager ends")

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port."""
        return translation.image_of(
            await self._ask(agent_id, incarnation, frames.PrepareImage(image), frames.ImageStatus)
        )

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        await self._ask(agent_id, incarnation, launch, frames.Done)

    async def stop_kernel(
        self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int, *, grace_s: float
    ) -> GoneProof:
        """See the port."""
        ask = frames.StopKernel(kernel_id, attempt, grace_s)
        return translation.gone_of(await self._ask(agent_id, incarnation, ask, frames.KernelGone))

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        await self._ask(agent_id, incarnation, frames.ForgetKernel(kernel_id, attempt), frames.Done)

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """See the port."""
        ask = frames.ReadLog(kernel_id, attempt, offset, limit)
        return translation.log_of(await self._ask(agent_id, 0, ask, frames.LogData))

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """See the port."""
        ask = frames.OpenStream(
            stream_id="", kernel_id=kernel_id, attempt=attempt, command=tuple(command), terminal=terminal
        )
        return LinkedExecution(agent_id, self._stream(agent_id, ask))

    @asynccontextmanager
    async def _stream(self, agent_id: AgentId, ask: frames.OpenStream) -> AsyncIterator[Stream]:
        """A stream that the agent dials for us, for as long as it is used."""
        connection = self._links.get(agent_id)
        call = self.streams.call(connection.token if connection else "")
        try:
            await self._ask(agent_id, 0, replace(ask, stream_id=call.stream_id), frames.Done)
            async with asyncio.timeout(self._limits.request_s):
                stream = await call.arrived
            yield stream
        except TimeoutError:
            raise AgentUnreachable(agent_id=agent_id, problem="it did not dial the stream it was asked for") from None
        finally:
            self.streams.leave(call)

    async def _talk(self, connection: AgentConnection, token: str) -> None:
        """A link from its Hello to its last heartbeat."""
        hello = await connection.greeted()
        if hello is None:
            return
        agent_id = AgentId(hello.agent_id)
        verdict = await self._verdict(hello, token)
        if isinstance(verdict, frames.Welcome):
            verdict = self._placed(agent_id, connection, verdict, token)
        if isinstance(verdict, frames.HelloRefused):
            await connection.refuse(verdict)
            return
        try:
            with suppress(LinkNotOpen):  # the agent has hung up meanwhile
                await connection.welcome(verdict)
                await self._listen(agent_id, connection)
        finally:
            if self._links.get(agent_id) is connection:
                del self._links[agent_id]

    async def _verdict(self, hello: frames.Hello, token: str) -> frames.Welcome | frames.HelloRefused:
        try:
            async with asyncio.timeout(self._limits.admission_s):
                return await self._admit(hello, token)
        except Exception as problem:  # noqa: BLE001  # a store that is away must not look like a refusal for good
            self._tell(f"agent {hello.agent_id} could not be admitted: {problem!r}")
            return frames.HelloRefused(code=UNAVAILABLE, message="the manager cannot admit agents now")

    def _placed(
        self, agent_id: AgentId, connection: AgentConnection, welcome: frames.Welcome, token: str
    ) -> frames.Welcome | frames.HelloRefused:
        """Make this the link of the agent, unless a later incarnation is here."""
        older = self._links.get(agent_id)
        if older is not None and older.incarnation > welcome.incarnation:
            message = f"incarnation {older.incarnation} of this agent is here, this is {welcome.incarnation}"
            return frames.HelloRefused(code=SUPERSEDED, message=message, final=True)
        connection.incarnation, connection.token = welcome.incarnation, token
        self._unadmitted.discard(connection)
        self._links[agent_id] = connection
        if older is not None:
            older.close(f"incarnation {welcome.incarnation} of this agent has taken over")
        return welcome

    async def _listen(self, agent_id: AgentId, connection: AgentConnection) -> None:
        while True:
            heartbeat = await connection.heartbeat()
            if heartbeat.incarnation < connection.incarnation:
                continue  # said before it heard the welcome
            connection.incarnation = heartbeat.incarnation
            try:
                await self._heard(
                    agent_id, translation.state_of(agent_id, heartbeat), translation.images_of(heartbeat.images)
                )
            except Exception as problem:  # noqa: BLE001  # the next heartbeat says it all again
                self._tell(f"a heartbeat of agent {agent_id} was lost: {problem!r}")

    async def _ask(self, agent_id: AgentId, incarnation: int, ask: frames.Ask, expected: type[W]) -> W:
        connection = self._links.get(agent_id)
        if connection is None:
            raise AgentUnreachable(agent_id=agent_id, problem="it has no link to this manager")
        try:
            outcome = await connection.ask(ask, incarnation=incarnation, allowed_s=self._limits.request_s)
        except (LinkBusy, LinkNotOpen) as problem:
            raise AgentUnreachable(agent_id=agent_id, problem=str(problem)) from None
        except MalformedFrame as problem:
            raise AgentRefused(agent_id=agent_id, problem=str(problem)) from None
        match outcome:
            case None:
                raise AgentUnreachable(agent_id=agent_id, problem=connection.ended or "it did not answer in time")
            case frames.RequestFailed() if outcome.code == BUSY:
                raise AgentUnreachable(agent_id=agent_id, problem=outcome.message)
            case frames.RequestFailed():
                words = f"{outcome.message} [{outcome.code}]"
                raise AgentRefused(agent_id=agent_id, problem=words, reason=outcome.code)
        if not isinstance(outcome.reply, expected):
            raise AgentUnreachable(agent_id=agent_id, problem=f"it answered with {type(outcome.reply).__name__}")
        return outcome.reply
