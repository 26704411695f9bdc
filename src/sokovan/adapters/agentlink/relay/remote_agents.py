"""The ports of agents in a process without links, through the one that has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar, cast

import msgspec

from sokovan.adapters.agentlink.duplex import Stream
from sokovan.adapters.agentlink.execution import LinkedStreams
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
    Wanted,
)
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock
from sokovan.ports.events import BusUnavailable
from sokovan.ports.kernel_files import FileListing, FilePart, KernelPath, UploadPlacement
from sokovan.ports.runtime import KernelUse, LogPart
from sokovan.wire.frames import ListFiles, MeasureKernel, OpenStream, PlaceUpload, ReadFile, ReadLog

R = TypeVar("R")

# Longer than the manager itself waits for an agent.
ANSWER_S = 30.0
LINKS_EVERY_S = 1.0


class ManagerProcessAway(BusUnavailable):
    """The process of this server that has the links of agents does not answer."""

    code = "manager-process-away"
    hint = "it is started again by itself; try again in a moment, and see the server's log if it persists"


class Relay:
    """Asks another process of this server; `address` is its Unix socket."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def ask(self, agent_id: str, wanted: Wanted, expected: type[R], *, allowed_s: float = ANSWER_S) -> R:
        """The answer. Raises ManagerProcessAway, AgentUnreachable, AgentRefused."""
        try:
            async with asyncio.timeout(allowed_s), self.opened(agent_id, wanted) as (outcome, _):
                return msgspec.msgpack.decode(outcome.content, type=expected)
        except TimeoutError:
            raise ManagerProcessAway("the manager did not answer in time") from None

    @asynccontextmanager
    async def opened(self, agent_id: str, wanted: Wanted) -> AsyncIterator[tuple[RelayOutcome, RelayChannel]]:
        """A connection on which the request has succeeded."""
        try:
            channel = RelayChannel(*await asyncio.open_unix_connection(self._address))
        except OSError as error:
            raise ManagerProcessAway("the manager cannot be reached") from error
        try:
            with suppress(ConnectionError):
                await channel.send(ProcessRequest(agent_id, wanted))
            content = await channel.receive_raw()
            if content is None:
                raise ManagerProcessAway("the manager has ended")
            yield _succeeded(agent_id, msgspec.msgpack.decode(content, type=RelayOutcome)), channel
        finally:
            channel.close()

    async def metrics(self) -> bytes:
        """The metrics of that process. Raises ManagerProcessAway."""
        return await self.ask("", MetricsWanted(), bytes, allowed_s=2.0)

    async def joining(self) -> JoinAddress | None:
        """The address that machines join at. Raises ManagerProcessAway."""
        return await self.ask("", JoiningWanted(), cast("type[JoinAddress | None]", JoinAddress | None))

    async def disconnect(self, agent_id: str) -> None:
        """Close the link of an agent, if the manager answers; else it is closed already."""
        with suppress(ManagerProcessAway):
            await self.ask(agent_id, LinkUnwanted(), cast("type[None]", Any))


class RelayedGateway(LinkedStreams):
    """The KernelGateway port; `follow` keeps the list of linked agents."""

    def __init__(self, relay: Relay, clock: Clock) -> None:
        self._relay, self._clock = relay, clock
        self._linked: frozenset[str] = frozenset()

    async def follow(self) -> None:
        """Look every second which agents are linked, until cancelled."""
        digest = ""
        while True:
            with suppress(ManagerProcessAway):
                found = await self._relay.ask("", LinksWanted(digest), LinksFound)
                digest = found.digest
                if found.agents is not None:
                    self._linked = frozenset(found.agents)
            await self._clock.sleep(LINKS_EVERY_S)

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """See the port."""
        return await _asked(self._relay, agent_id, ReadLog(kernel_id, attempt, offset, limit), LogPart)

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        """See the port."""
        return await _asked(self._relay, agent_id, MeasureKernel(kernel_id, attempt), KernelUse)

    def connected(self, agent_id: AgentId) -> bool:
        """See the port; as of the last look."""
        return agent_id in self._linked

    @asynccontextmanager
    async def _stream(self, agent_id: AgentId, command: OpenStream) -> AsyncIterator[Stream]:
        try:
            async with self._relay.opened(agent_id, command) as (_, channel):
                yield RelayStream(channel)
        except ManagerProcessAway as error:
            raise AgentUnreachable(agent_id=agent_id, problem=error.message) from None


class RelayedFiles:
    """The AgentFiles port."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def list(self, agent_id: AgentId, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        """See the port."""
        wanted = ListFiles(
            kernel_id=place.kernel_id, attempt=place.attempt, path=place.path, after=after, files_max=files_max
        )
        return await _asked(self._relay, agent_id, wanted, FileListing)

    async def read(self, agent_id: AgentId, place: KernelPath, *, offset: int, limit: int, mark: str) -> FilePart:
        """See the port."""
        wanted = ReadFile(
            kernel_id=place.kernel_id, attempt=place.attempt, path=place.path, offset=offset, limit=limit, mark=mark
        )
        return await _asked(self._relay, agent_id, wanted, FilePart)

    async def put(self, agent_id: AgentId, place: KernelPath, upload: str) -> UploadPlacement:
        """See the port."""
        wanted = PlaceUpload(kernel_id=place.kernel_id, attempt=place.attempt, upload=upload, path=place.path)
        return await _asked(self._relay, agent_id, wanted, UploadPlacement)


class RelayedStates:
    """The AgentStateReader port. Raises ManagerProcessAway."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def get(self, agent_id: AgentId) -> AgentState | None:
        """See the port."""
        return await self._relay.ask(agent_id, StateWanted(), cast("type[AgentState | None]", AgentState | None))

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        """See the port."""
        found = await self._relay.ask("", StatesWanted(), tuple[AgentState, ...])
        return {one.agent_id: one for one in found}


async def _asked(relay: Relay, agent_id: AgentId, wanted: Wanted, expected: type[R]) -> R:
    """An answer of an agent. Raises AgentUnreachable, AgentRefused."""
    try:
        return await relay.ask(agent_id, wanted, expected)
    except ManagerProcessAway as error:
        raise AgentUnreachable(agent_id=agent_id, problem=error.message) from None


def _succeeded(agent_id: str, outcome: RelayOutcome) -> RelayOutcome:
    match outcome.kind:
        case "unreachable":
            raise AgentUnreachable(agent_id=agent_id, problem=outcome.problem)
        case "refused":
            raise AgentRefused(agent_id=agent_id, problem=outcome.problem, reason=outcome.reason)
    return outcome
