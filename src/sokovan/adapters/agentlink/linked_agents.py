"""Connected agents: at most one open link each, and requests over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from sokovan.adapters.agentlink import translation
from sokovan.adapters.agentlink.connection import AgentConnection, LinkLimits, LinkWatch
from sokovan.adapters.agentlink.duplex import Duplex, Stream
from sokovan.adapters.agentlink.linked_files import LinkedFiles
from sokovan.adapters.agentlink.linked_use import LinkedUse
from sokovan.adapters.agentlink.streams import PendingStreams
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageReport
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import LogPart
from sokovan.ports.uploads import UploadStore
from sokovan.wire import frames
from sokovan.wire.frames import SUPERSEDED, CreateKernel
from sokovan.wire.link_codec import MalformedFrame
from sokovan.wire.link_session import BUSY, LinkBusy, LinkNotOpen

# Checks the credential of an agent and enrols it, or refuses it.
Admit: TypeAlias = Callable[[frames.Hello, str], Awaitable[frames.Welcome | frames.HelloRefused]]
# Takes the state of an agent from a heartbeat.
OnHeartbeat: TypeAlias = Callable[[AgentId, AgentState, tuple[ImageReport, ...]], Awaitable[None]]

UNAVAILABLE = "unavailable"

W = TypeVar("W", bound=frames.Reply)


def _discard(_line: str) -> None:
    """The default log: discards lines."""


class LinkedAgents(LinkedUse):
    """The AgentGateway port over the links that agents have opened to this manager.

    `streams` are the connections that agents were requested to open, `files` the files of
    their kernels, `unadmitted` the links that wait for admission.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        admit: Admit,
        on_heartbeat: OnHeartbeat,
        limits: LinkLimits | None = None,
        log: Callable[[str], None] = _discard,
        uploads: UploadStore | None = None,
    ) -> None:
        self._clock, self._admit, self._on_heartbeat, self._log = clock, admit, on_heartbeat, log
        self._limits, self._watch = limits or LinkLimits(), LinkWatch(clock)
        self._links: dict[AgentId, AgentConnection] = {}
        self.unadmitted: set[AgentConnection] = set()
        self.streams, self.uploads, self.files = PendingStreams(), uploads, LinkedFiles(self._request)

    async def serve(self, duplex: Duplex, token: str) -> str:
        """Serve a link until it ends; returns the reason. The caller then disconnects."""
        connection = AgentConnection(duplex, self._clock, self._limits, self._watch)
        self.unadmitted.add(connection)
        try:
            await connection.run(lambda: self._serve_link(connection, token))
        finally:
            self.unadmitted.discard(connection)
        return connection.ended

    @property
    def is_full(self) -> bool:
        """Whether the limit of links that wait for admission is reached."""
        return len(self.unadmitted) >= self._limits.unadmitted_max

    def connected(self, agent_id: AgentId) -> bool:
        """Whether the agent has an open link to this manager."""
        return agent_id in self._links and self._links[agent_id].is_open

    def incarnation(self, agent_id: AgentId) -> int:
        """The incarnation that the agent was accepted as; 0 if it has no link."""
        return self._links[agent_id].incarnation if self.connected(agent_id) else 0

    async def report_now(self, agent_id: AgentId) -> None:
        """Request a heartbeat now, if the agent is connected."""
        if agent_id in self._links:
            await self._links[agent_id].report_now()

    def disconnect(self, agent_id: AgentId, reason: str) -> None:
        """Close the link of an agent, if it has one."""
        if agent_id in self._links:
            self._links[agent_id].close(reason)

    def close(self) -> None:
        """Close every link."""
        for connection in list(self._links.values()):
            connection.close("the manager is shutting down")

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port."""
        return translation.image_of(
            await self._request(agent_id, incarnation, frames.PrepareImage(image), frames.ImageStatus)
        )

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        await self._request(agent_id, incarnation, launch, frames.Done)

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
        command = frames.StopKernel(kernel_id, attempt, grace_s, notice)
        return translation.gone_of(await self._request(agent_id, incarnation, command, frames.KernelGone))

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        await self._request(agent_id, incarnation, frames.ForgetKernel(kernel_id, attempt), frames.Done)

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """See the port."""
        command = frames.ReadLog(kernel_id, attempt, offset, limit)
        return translation.log_of(await self._request(agent_id, 0, command, frames.LogData))

    async def _measured(self, agent_id: AgentId, command: frames.MeasureKernel) -> frames.UseFigures:
        """Ask an agent that knows the command: others would end the link."""
        if self.connected(agent_id) and not self._links[agent_id].measures:
            raise AgentRefused(agent_id=agent_id, problem="its release cannot measure kernels; upgrade it")
        return await self._request(agent_id, 0, command, frames.UseFigures)

    @asynccontextmanager
    async def _stream(self, agent_id: AgentId, command: frames.OpenStream) -> AsyncIterator[Stream]:
        """A stream that the agent opens on request."""
        connection = self._links.get(agent_id)
        call = self.streams.expect(connection.token if connection else "")
        try:
            await self._request(agent_id, 0, replace(command, stream_id=call.stream_id), frames.Done)
            async with asyncio.timeout(self._limits.request_s):
                stream = await call.arrived
            yield stream
        except TimeoutError:
            raise AgentUnreachable(agent_id=agent_id, problem="it did not open the requested stream") from None
        finally:
            self.streams.discard(call)

    async def _serve_link(self, connection: AgentConnection, token: str) -> None:
        """Serve a link from its Hello to its last heartbeat."""
        hello = await connection.hello()
        if hello is None:
            return
        agent_id = AgentId(hello.agent_id)
        verdict = await self._admission(hello, token)
        if isinstance(verdict, frames.Welcome):
            verdict = self._register(agent_id, connection, verdict, token)
        if isinstance(verdict, frames.HelloRefused):
            await connection.refuse(verdict)
            return
        try:
            with suppress(LinkNotOpen):  # the agent has disconnected meanwhile
                await connection.welcome(verdict)
                await self._listen(agent_id, connection)
        finally:
            if self._links.get(agent_id) is connection:
                del self._links[agent_id]

    async def _admission(self, hello: frames.Hello, token: str) -> frames.Welcome | frames.HelloRefused:
        try:
            async with asyncio.timeout(self._limits.admission_s):
                return await self._admit(hello, token)
        except Exception as problem:  # noqa: BLE001  # an unavailable store must not look like a final refusal
            self._log(f"agent {hello.agent_id} could not be admitted: {problem!r}")
            return frames.HelloRefused(code=UNAVAILABLE, message="the manager cannot admit agents now")

    def _register(
        self, agent_id: AgentId, connection: AgentConnection, welcome: frames.Welcome, token: str
    ) -> frames.Welcome | frames.HelloRefused:
        """Make this the link of the agent, unless a later incarnation is connected."""
        older = self._links.get(agent_id)
        if older is not None and older.incarnation > welcome.incarnation:
            message = f"incarnation {older.incarnation} of this agent is connected, this is {welcome.incarnation}"
            return frames.HelloRefused(code=SUPERSEDED, message=message, final=True)
        connection.incarnation, connection.token = welcome.incarnation, token
        self.unadmitted.discard(connection)
        self._links[agent_id] = connection
        if older is not None:
            older.close(f"superseded by incarnation {welcome.incarnation} of this agent")
        return welcome

    async def _listen(self, agent_id: AgentId, connection: AgentConnection) -> None:
        while True:
            heartbeat = await connection.heartbeat()
            if heartbeat.incarnation < connection.incarnation:
                continue  # sent before the agent received the welcome
            connection.incarnation = heartbeat.incarnation
            try:
                await self._on_heartbeat(
                    agent_id, translation.state_of(agent_id, heartbeat), translation.images_of(heartbeat.images)
                )
            except Exception as problem:  # noqa: BLE001  # the next heartbeat repeats it
                self._log(f"a heartbeat of agent {agent_id} was lost: {problem!r}")

    async def _request(self, agent_id: AgentId, incarnation: int, command: frames.Command, expected: type[W]) -> W:
        connection = self._links.get(agent_id)
        if connection is None:
            raise AgentUnreachable(agent_id=agent_id, problem="it has no link to this manager")
        try:
            outcome = await connection.request(command, incarnation=incarnation, allowed_s=self._limits.request_s)
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
                message = f"{outcome.message} [{outcome.code}]"
                raise AgentRefused(agent_id=agent_id, problem=message, reason=outcome.code)
        if not isinstance(outcome.reply, expected):
            raise AgentUnreachable(agent_id=agent_id, problem=f"it answered with {type(outcome.reply).__name__}")
        return outcome.reply
