# Generated from sdk/aio/client.py by `make docs`; do not edit.
"""The sync client.

Example:
    with sokovan.Client() as client:
        session = client.run("python train.py", gpus=8, size=4, topology="hard:rack")
        session.wait("RUNNING")
        print(session.why() or session.where)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self, Unpack

from sokovan.sdk.core import system_calls
from sokovan.sdk.core.streams.followers import EventFollower
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.http.sync import Transport
from sokovan.sdk.local_folder import is_of_this_machine, with_current_folder, without_links
from sokovan.sdk.preferences import endpoint_for, with_defaults
from sokovan.sdk.session_request import session_body
from sokovan.sdk.sync.arrays import Arrays
from sokovan.sdk.sync.catalogs import Catalogs
from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.handle import SessionHandle
from sokovan.sdk.sync.sessions import Kernels, Sessions
from sokovan.wire.api.sessions import RunOptions
from sokovan.wire.api.system import EventView, HealthView, ServerSettingsView, WhoamiView

if TYPE_CHECKING:
    from sokovan.sdk.sync.files import Files
    from sokovan.sdk.sync.uploads import Uploads
    from sokovan.wire.api.sessions import SessionBody


class Client(Catalogs):
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
        transport: Transport | None = None,
    ) -> None:
        self._preferences, endpoint = endpoint_for(url, token, context=context, timeout_s=timeout_s)
        connection = Connection(endpoint, transport=transport)
        super().__init__(connection)
        self.sessions, self.kernels = Sessions(connection), Kernels(connection)
        self.arrays = Arrays(connection)
        self._caller: WhoamiView | None = None

    @cached_property
    def uploads(self) -> Uploads:
        """Folders that sessions run in."""
        from sokovan.sdk.sync.uploads import Uploads  # noqa: PLC0415  # most programs copy no files

        return Uploads(self._connection)

    @cached_property
    def files(self) -> Files:
        """Files of kernels, and copies of them."""
        from sokovan.sdk.sync.files import Files  # noqa: PLC0415  # most programs copy no files

        return Files(self._connection, self.uploads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def endpoint(self) -> ServerEndpoint:
        """Address and credentials of the server."""
        return self._connection.endpoint

    def run(self, command: str | Sequence[str] = (), **options: Unpack[RunOptions]) -> SessionHandle:
        """Submit a session and return its handle; does not wait for its start.

        A server that runs on this machine as this user works in the current folder, unless
        `workdir` names another one, or `none`.
        """
        body = with_defaults(session_body(command, **options), self._preferences)
        body = self.with_local_paths(body, is_chosen="workdir" in options or bool(body.upload))
        return SessionHandle(self.sessions, self.kernels, self.sessions.submit(body))

    def session(self, ref: str) -> SessionHandle:
        """The handle of an existing session."""
        return SessionHandle(self.sessions, self.kernels, self.sessions.get(ref))

    def events(self) -> Iterator[EventView]:
        """Yield the events of the server until the caller stops iterating."""
        return self._connection.follow(EventFollower())

    def whoami(self) -> WhoamiView:
        """The user and key that the server authenticated."""
        return self._connection.send(system_calls.whoami())

    def sees_local_files(self) -> bool:
        """Whether the server runs on this machine as this user."""
        if self._caller is None and self.endpoint.is_loopback:
            self._caller = self.whoami()
        return self._caller is not None and is_of_this_machine(self._caller)

    def with_local_paths(self, body: SessionBody, *, is_chosen: bool) -> SessionBody:
        """The request with the caller's folder to work in, unless one `is_chosen`.

        Unchanged if the server does not see the files of this machine.
        """
        needs_none = is_chosen and not body.workdir and not body.mounts
        if needs_none or not self.sees_local_files() or self._caller is None:
            return body
        found = without_links(body)
        return found if is_chosen else with_current_folder(found, self._caller.folders)

    def health(self) -> HealthView:
        """Health of the server's components."""
        return self._connection.send(system_calls.health())

    def server_settings(self) -> ServerSettingsView:
        """The settings of the server and their sources; for administrators."""
        return self._connection.send(system_calls.server_settings())

    def close(self) -> None:
        """Close the sockets."""
        self._connection.close()
