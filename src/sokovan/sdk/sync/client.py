"""The sync client.

import sokovan

session = sokovan.run("python train.py", gpus=8, size=4, topology="hard:rack")
session.wait("RUNNING")
print(session.why() or session.where)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

import httpx2

from sokovan.sdk.core import system_calls as calls
from sokovan.sdk.core.followers import EventFollower
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.preferences import endpoint_for, with_defaults
from sokovan.sdk.session_request import RunOptions, session_body
from sokovan.sdk.sync.catalogs import Catalogs
from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.handle import SessionHandle
from sokovan.sdk.sync.sessions import Kernels, Sessions
from sokovan.wire.api.system import EventView, HealthView

if TYPE_CHECKING:
    from sokovan.wire.api.tenancy import WhoamiView


class Client(Catalogs):
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
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._preferences, endpoint = endpoint_for(url, token, context=context, timeout_s=timeout_s)
        connection = Connection(endpoint, transport=transport)
        super().__init__(connection)
        self.sessions, self.kernels = Sessions(connection), Kernels(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def endpoint(self) -> ServerEndpoint:
        """Where the server is."""
        return self._connection.endpoint

    def run(self, command: str | Sequence[str] = (), **options: Unpack[RunOptions]) -> SessionHandle:
        """Ask for a session; returns at once with its handle."""
        body = with_defaults(session_body(command, **options), self._preferences)
        return SessionHandle(self.sessions, self.kernels, self.sessions.submit(body))

    def session(self, ref: str) -> SessionHandle:
        """The handle of a session that is there already."""
        return SessionHandle(self.sessions, self.kernels, self.sessions.get(ref))

    def events(self) -> Iterator[EventView]:
        """What happens, as it happens, until the caller has enough."""
        return self._connection.follow(EventFollower())

    def whoami(self) -> WhoamiView:
        """Who the caller is, as the server sees it."""
        return self._connection.send(calls.whoami())

    def health(self) -> HealthView:
        """Whether the parts of the system work."""
        return self._connection.send(calls.health())

    def close(self) -> None:
        """Let go of the sockets."""
        self._connection.close()
