"""The async client: the sync one, with the same names.

async with sokovan.AsyncClient() as client:
session = await client.run("python train.py", gpus=8)
await session.wait("RUNNING")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

import httpx2

from sokovan.sdk.aio.catalogs import AsyncCatalogs
from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.handle import AsyncSessionHandle
from sokovan.sdk.aio.sessions import AsyncKernels, AsyncSessions
from sokovan.sdk.core import system_calls as calls
from sokovan.sdk.core.followers import EventFollower
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.preferences import endpoint_for, with_defaults
from sokovan.sdk.session_request import RunOptions, session_body
from sokovan.wire.api.system import EventView, HealthView

if TYPE_CHECKING:
    from sokovan.wire.api.tenancy import WhoamiView


class AsyncClient(AsyncCatalogs):
    """All that the server offers, under the names that the command line uses.

    Without arguments it speaks to the server that the command line speaks to: by
    SOKOVAN_URL and SOKOVAN_TOKEN, or by the current context.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        context: str | None = None,
        timeout_s: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._preferences, endpoint = endpoint_for(url, token, context=context, timeout_s=timeout_s)
        connection = AsyncConnection(endpoint, transport=transport)
        super().__init__(connection)
        self.sessions, self.kernels = AsyncSessions(connection), AsyncKernels(connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def endpoint(self) -> ServerEndpoint:
        """Where the server is."""
        return self._connection.endpoint

    async def run(self, command: str | Sequence[str] = (), **options: Unpack[RunOptions]) -> AsyncSessionHandle:
        """Ask for a session; returns at once with its handle."""
        body = with_defaults(session_body(command, **options), self._preferences)
        return AsyncSessionHandle(self.sessions, self.kernels, await self.sessions.submit(body))

    async def session(self, ref: str) -> AsyncSessionHandle:
        """The handle of a session that is there already."""
        return AsyncSessionHandle(self.sessions, self.kernels, await self.sessions.get(ref))

    def events(self) -> AsyncIterator[EventView]:
        """What happens, as it happens, until the caller has enough."""
        return self._connection.follow(EventFollower())

    async def whoami(self) -> WhoamiView:
        """Who the caller is, as the server sees it."""
        return await self._connection.send(calls.whoami())

    async def health(self) -> HealthView:
        """Whether the parts of the system work."""
        return await self._connection.send(calls.health())

    async def close(self) -> None:
        """Let go of the sockets."""
        await self._connection.close()
