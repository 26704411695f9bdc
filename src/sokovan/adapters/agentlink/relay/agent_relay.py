"""Answers the requests of other processes of this server."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from sokovan.adapters.agentlink.relay.process_messages import (
    JoiningWanted,
    LinksFound,
    LinksWanted,
    LinkUnwanted,
    MetricsWanted,
    ProcessRequest,
    RelayChannel,
    RelayOutcome,
    RelayStream,
    StatesWanted,
    StateWanted,
)
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentRefused, KernelGateway
from sokovan.ports.agent_states import AgentStateReader
from sokovan.ports.kernel_files import AgentFiles, KernelPath
from sokovan.ports.runtime import KernelExecution
from sokovan.wire.exec_messages import (
    CHUNK_BYTES_MAX,
    CommandEnded,
    InputEnded,
    Resized,
    decode_message,
    encode_message,
)
from sokovan.wire.frames import ListFiles, MeasureKernel, OpenStream, PlaceUpload, ReadFile, ReadLog
from sokovan.wire.link_codec import MalformedFrame

# Answers a request about an agent.
Answer = Callable[[AgentId, Any], Awaitable[object]]
_requests = msgspec.msgpack.Decoder(ProcessRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedPorts:
    """The ports of the process with the links, for the others."""

    gateway: KernelGateway
    files: AgentFiles
    agents: AgentStateReader
    joining: JoinAddress | None
    disconnect: Callable[[str], None]

    def answers(self) -> Mapping[type, Answer]:
        """The answer to each request about agents."""
        return {
            ReadLog: self._log,
            MeasureKernel: lambda agent, one: self.gateway.measure(agent, KernelId(one.kernel_id), one.attempt),
            ListFiles: lambda agent, one: self.files.list(agent, _place(one), after=one.after, files_max=one.files_max),
            ReadFile: lambda agent, one: self.files.read(
                agent, _place(one), offset=one.offset, limit=one.limit, mark=one.mark
            ),
            PlaceUpload: lambda agent, one: self.files.put(agent, _place(one), one.upload),
            StateWanted: lambda agent, _: self.agents.get(agent),
            StatesWanted: self._states,
            LinksWanted: self._links,
            JoiningWanted: self._joining,
            LinkUnwanted: self._disconnect,
        }

    def stream(self, agent: AgentId, wanted: OpenStream) -> KernelExecution:
        """The command, or the connection to a port, that a stream is for."""
        kernel = KernelId(wanted.kernel_id)
        if wanted.port:
            return self.gateway.connect(agent, kernel, wanted.attempt, wanted.port)
        return self.gateway.execute(agent, kernel, wanted.attempt, wanted.command, terminal=wanted.terminal)

    async def _log(self, agent: AgentId, one: ReadLog) -> object:
        kernel = KernelId(one.kernel_id)
        return await self.gateway.read_log(agent, kernel, one.attempt, offset=one.offset, limit=one.limit)

    async def _states(self, _agent: AgentId, _one: StatesWanted) -> object:
        return tuple((await self.agents.fresh()).values())

    async def _links(self, _agent: AgentId, one: LinksWanted) -> object:
        fresh = await self.agents.fresh()
        found = tuple(sorted(agent for agent in fresh if self.gateway.connected(agent)))
        digest = hashlib.sha256("\n".join(found).encode()).hexdigest()
        return LinksFound(digest, None if digest == one.digest else found)

    async def _joining(self, _agent: AgentId, _one: JoiningWanted) -> object:
        return self.joining

    async def _disconnect(self, agent: AgentId, _one: LinkUnwanted) -> object:
        self.disconnect(agent)
        return None


def metrics_answer(metrics: Callable[[], bytes]) -> Mapping[type, Answer]:
    """The answer to a request for the metrics of this process."""

    async def answer(_agent: AgentId, _one: MetricsWanted) -> bytes:
        return metrics()

    return {MetricsWanted: answer}


class RelayServer:
    """Serves the other processes on a socket in the server's folder."""

    def __init__(self, answers: Mapping[type, Answer], ports: RelayedPorts | None = None) -> None:
        self._answers, self._ports = answers, ports
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def served(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve while the context is open; then end what is under way."""
        # Later releases of Python remove the file of a socket that they close; it is the first process's.
        kept: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        server = await asyncio.start_unix_server(self._accept, sock=listener, **kept)
        try:
            yield
        finally:
            server.close()
            for task in list(self._serving):
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(RelayChannel(reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, channel: RelayChannel) -> None:
        try:
            content = await channel.receive_raw()
            if content is None:
                return
            with suppress(ConnectionError, msgspec.DecodeError):  # the caller has gone, or is of another release
                request = _requests.decode(content)
                if isinstance(request.wanted, OpenStream) and self._ports is not None:
                    await self._run(channel, self._ports.stream(AgentId(request.agent_id), request.wanted))
                else:
                    await channel.send(await self._outcome(request))
        finally:
            channel.close()

    async def _outcome(self, request: ProcessRequest) -> RelayOutcome:
        answer = self._answers.get(type(request.wanted))
        if answer is None:
            return RelayOutcome("refused", problem="this process does not know it", reason="unknown-request")
        try:
            found = await answer(AgentId(request.agent_id), request.wanted)
        except SokovanError as error:
            return failure(error)
        return RelayOutcome("done", msgspec.Raw(msgspec.msgpack.encode(found)))

    async def _run(self, channel: RelayChannel, execution: KernelExecution) -> None:
        """Copy in both directions until the command ends or the caller disconnects."""
        try:
            await execution.__aenter__()
        except SokovanError as error:
            await channel.send(failure(error))
            return
        stream = RelayStream(channel)
        tasks: set[asyncio.Task[None]] = set()
        try:
            await channel.send(RelayOutcome("done"))
            tasks |= {
                asyncio.ensure_future(_send_outcome(execution, stream)),
                asyncio.ensure_future(_receive_input(execution, stream)),
            }
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with suppress(ConnectionError, MalformedFrame, SokovanError):  # the caller sees that the stream ends
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await execution.__aexit__(None, None, None)


def failure(error: SokovanError) -> RelayOutcome:
    """The outcome for an error of a port."""
    problem = getattr(error, "problem", error.message)
    if isinstance(error, AgentRefused):
        return RelayOutcome("refused", problem=problem, reason=error.reason)
    return RelayOutcome("unreachable", problem=problem)


async def _send_outcome(execution: KernelExecution, stream: RelayStream) -> None:
    async for piece in execution.output():
        for start in range(0, len(piece), CHUNK_BYTES_MAX):
            await stream.send(piece[start : start + CHUNK_BYTES_MAX])
    await stream.send(encode_message(CommandEnded(await execution.wait())))


async def _receive_input(execution: KernelExecution, stream: RelayStream) -> None:
    while (content := await stream.receive()) is not None:
        if isinstance(content, bytes):
            await execution.write(content)
            continue
        match decode_message(content):
            case InputEnded():
                await execution.write(b"")
            case Resized() as message:
                await execution.resize(rows=message.rows, columns=message.columns)


def _place(one: ListFiles | ReadFile | PlaceUpload) -> KernelPath:
    return KernelPath(KernelId(one.kernel_id), one.attempt, one.path)
