"""Serves the API: on loopback, and for clients of other machines with TLS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from sokovan.adapters.local.clock import SystemClock
from sokovan.api.app import close_streams
from sokovan.entrypoints.embedded.web_server import NoFreePort, bound_socket, served
from sokovan.entrypoints.settings.listen_address import ListenAddress, read_listen
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.web.connection_limits import Connections

CERTIFICATE_FILE = "api.pem"
# Runs a task until the server ends, and again after a failure.
Keep = Callable[..., None]


@dataclass(frozen=True, slots=True)
class ApiListener:
    """The listener for clients of other machines, with a certificate for `names`.

    `folder` is that of the certificate authority, `own` that of this manager's certificate.
    `socket` is the bound one, if it is open already.
    """

    at: ListenAddress
    names: tuple[str, ...]
    folder: Path
    own: Path
    socket: socket.socket | None = None

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"https://{self.at.advertised}:{self.at.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddresses:
    """URLs of the API and of the gateway, empty without one.

    `remote` is the listener of the API for other machines. `probes` is the URL of health and
    metrics, if there is no API.
    """

    url: str
    probes: str = ""
    gateway: str = ""
    remote: ApiListener | None = None

    @property
    def models(self) -> str:
        """The base URL for clients of the OpenAI API."""
        return f"{self.gateway}/v1" if self.gateway else ""


def api_listener(settings: ServerSettings, *, folder: Path, own: Path) -> ApiListener | None:
    """The configured listener; None if clients are on this machine only."""
    if not settings.api.listen:
        return None
    at = read_listen(settings.api.listen)
    return ApiListener(at, allowed_hosts(settings), folder, own)


def allowed_hosts(settings: ServerSettings) -> tuple[str, ...]:
    """The host names of requests: the configured ones, and that of the listener."""
    named = settings.api.allowed_hosts
    if not settings.api.listen:
        return named
    return tuple(dict.fromkeys((*named, read_listen(settings.api.listen).advertised)))


def remote_socket(remote: ApiListener) -> socket.socket:
    """The bound socket for clients of other machines. Raises NoFreePort."""
    bound = bound_socket(remote.at.host, remote.at.port)
    if remote.at.port not in {0, bound.getsockname()[1]}:  # clients know the address
        bound.close()
        raise NoFreePort(f"{remote.at.host}:{remote.at.port} is in use", hint="choose another port in api.listen")
    return bound


async def serve_api(
    app: FastAPI,
    listener: socket.socket,
    connections: Connections,
    stack: AsyncExitStack,
    *,
    remote: ApiListener | None,
    keep: Keep,
) -> dict[str, asyncio.Future[None]]:
    """Serve the API until the stack is closed. Raises NoFreePort.

    Returns its servers, which are done if they end by themselves.
    """
    found = {"the API": await stack.enter_async_context(served(app, listener, connections))}
    if remote is not None:
        found["the API for other machines"] = await _serve_remote(app, connections, stack, remote=remote, keep=keep)
    stack.callback(close_streams, app)
    return found


async def _serve_remote(
    app: FastAPI, connections: Connections, stack: AsyncExitStack, *, remote: ApiListener, keep: Keep
) -> asyncio.Future[None]:
    from sokovan.adapters.local.certificates import CertificateAuthority  # noqa: PLC0415  # loads cryptography
    from sokovan.entrypoints.joining.machine_links import renew_repeatedly  # noqa: PLC0415  # loads cryptography

    clock = SystemClock()
    authority = CertificateAuthority(remote.folder, clock, own=remote.own)
    tls = authority.serving(remote.names, CERTIFICATE_FILE)
    bound = remote.socket or remote_socket(remote)
    renew: Callable[[], Coroutine[Any, Any, None]] = partial(
        renew_repeatedly, clock, lambda: authority.renew(tls, *remote.names, file=CERTIFICATE_FILE)
    )
    keep(renew, name="renewal of the certificate of the API")
    return await stack.enter_async_context(served(app, bound, connections, tls))
