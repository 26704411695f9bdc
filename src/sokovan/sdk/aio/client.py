"""The async client.

Example:
    async with sokovan.AsyncClient() as client:
        session = await client.run("python train.py", gpus=8, size=4, topology="hard:rack")
        await session.wait("RUNNING")
        print(await session.why() or session.where)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self, Unpack

from sokovan.sdk.aio.arrays import AsyncArrays
from sokovan.sdk.aio.catalogs import AsyncCatalogs
from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.handle import AsyncSessionHandle
from sokovan.sdk.aio.sessions import AsyncKernels, AsyncSessions
from sokovan.sdk.core import system_calls
from sokovan.sdk.core.streams.followers import EventFollower
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.http.aio import AsyncTransport
from sokovan.sdk.local_folder import is_of_this_machine, with_current_folder, without_links
from sokovan.sdk.preferences import endpoint_for, with_defaults
from sokovan.sdk.session_request import session_body
from sokovan.wire.api.sessions import RunOptions
from sokovan.wire.api.system import EventView, HealthView, ServerSettingsView, WhoamiView

if TYPE_CHECKING:
    from sokovan.sdk.aio.files import AsyncFiles
    from sokovan.sdk.aio.uploads import AsyncUploads
    from sokovan.wire.api.sessions import SessionBody


class AsyncClient(AsyncCatalogs):
    """Every operation of the server, under the names that the command line uses.

    Without arguments it connects to the server that the command line uses: the one of
    SOKOVAN_URL and SOKOVAN_TOKEN, or of the current context.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        context: str | None = None,
        timeout_s: float = 30.0,
        transport: AsyncTransport | None = None,
    ) -> None:
        self._preferences, endpoint = endpoint_for(url, token, context=context, timeout_s=timeout_s)
        connection = AsyncConnection(endpoint, transport=transport)
        super().__init__(connection)
        self.sessions, self.kernels = AsyncSessions(connection), AsyncKernels(connection)
        self.arrays = AsyncArrays(connection)
        self._caller: WhoamiView | None = None

    @cached_property
    def uploads(self) -> AsyncUploads:
        """Folders that sessions run in."""
        from sokovan.sdk.aio.uploads import AsyncUploads  # noqa: PLC0415  # most programs copy no files

        return AsyncUploads(self._connection)

    @cached_property
    def files(self) -> AsyncFiles:
        """Files of kernels, and copies of them."""
        from sokovan.sdk.aio.files import AsyncFiles  # noqa: PLC0415  # most programs copy no files

        return AsyncFiles(self._connection, self.uploads)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def endpoint(self) -> ServerEndpoint:
        """Address and credentials of the server."""
        return self._connection.endpoint

    async def run(self, command: str | Sequence[str] = (), **options: Unpack[RunOptions]) -> AsyncSessionHandle:
        """Submit a session and return its handle; does not wait for its start.

        A server that runs on this machine as this user works in the current folder, unless
        `workdir` names another one, or `none`.
        """
        body = with_defaults(session_body(command, **options), self._preferences)
        body = await self.with_local_paths(body, is_chosen="workdir" in options or bool(body.upload))
        return AsyncSessionHandle(self.sessions, self.kernels, await self.sessions.submit(body))

    async def session(self, ref: str) -> AsyncSessionHandle:
        """The handle of an existing session."""
        return AsyncSessionHandle(self.sessions, self.kernels, await self.sessions.get(ref))

    def events(self) -> AsyncIterator[EventView]:
        """Yield the events of the server until the caller stops iterating."""
        return self._connection.follow(EventFollower())

    async def whoami(self) -> WhoamiView:
        """The user and key that the server authenticated."""
        return await self._connection.send(system_calls.whoami())

    async def sees_local_files(self) -> bool:
        """Whether the server runs on this machine as this user."""
        if self._caller is None and self.endpoint.is_loopback:
            self._caller = await self.whoami()
        return self._caller is not None and is_of_this_machine(self._caller)

    async def with_local_paths(self, body: SessionBody, *, is_chosen: bool) -> SessionBody:
        """The request with the caller's folder to work in, unless one `is_chosen`.

        Unchanged if the server does not see the files of this machine.
        """
        needs_none = is_chosen and not body.workdir and not body.mounts
        if needs_none or not await self.sees_local_files() or self._caller is None:
            return body
        found = without_links(body)
        return found if is_chosen else with_current_folder(found, self._caller.folders)

    async def health(self) -> HealthView:
        """Health of the server's components."""
        return await self._connection.send(system_calls.health())

    async def server_settings(self) -> ServerSettingsView:
        """The settings of the server and their sources; for administrators."""
        return await self._connection.send(system_calls.server_settings())

    async def close(self) -> None:
        """Close the sockets."""
        await self._connection.close()
