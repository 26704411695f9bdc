"""The connection to etcd, with deadlines and ConfigUnavailable for failures.

The client library is young, so only its documented services are used, and its
exceptions do not leave this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]  # it comes with the client library, without annotations
from etcd3aio.auth import AuthService
from etcd3aio.connections import ConnectionManager
from etcd3aio.errors import EtcdError
from etcd3aio.kv import KVService
from etcd3aio.watch import WatchService

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.ports.config import ConfigUnavailable

T = TypeVar("T")

# By default gRPC waits up to two minutes before it retries a server. The minimum backoff is also the timeout of an
# attempt to connect.
CHANNEL_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
RETRY_S = 0.1
# Share of the deadline per attempt, so that a call to a hanging server is retried.
ATTEMPT_SHARE = 0.25
WATCH_BACKOFF_S, WATCH_BACKOFF_MAX_S = 0.1, 1.0
_FAILURES = (EtcdError, grpc.RpcError, grpc.aio.UsageError, OSError, TimeoutError, ValueError)


@dataclass(frozen=True, slots=True)
class _Services:
    addresses: tuple[str, ...]
    channel: Any
    store: KVService
    watching: WatchService
    auth: AuthService


class EtcdConnection:
    """One channel to the cluster, opened with the first call."""

    def __init__(self, access: EtcdAccess) -> None:
        self.access = access
        self._services: _Services | None = None
        self._retired: list[_Services] = []
        self._opening = asyncio.Lock()
        self._is_stale = False

    async def call(self, request: Callable[[KVService], Awaitable[T]], *, doing: str) -> T:
        """The response to one call within the deadline. Raises ConfigUnavailable."""
        async with self._guarded(doing):
            return await self._call(request)

    async def call_with_retry(self, request: Callable[[KVService], Awaitable[T]], *, doing: str) -> T:
        """The response to an idempotent call. Raises ConfigUnavailable.

        Retries lost calls until the deadline.
        """
        async with self._guarded(doing):
            while True:
                try:
                    async with asyncio.timeout(self.access.deadline_s * ATTEMPT_SHARE):
                        return await self._call(request)
                except (EtcdError, grpc.RpcError, OSError) as error:
                    if not _is_lost(error):
                        raise
                    await asyncio.sleep(RETRY_S)

    async def _call(self, request: Callable[[KVService], Awaitable[T]]) -> T:
        services = await self._open()
        try:
            return await request(services.store)
        except (EtcdError, grpc.RpcError) as error:
            if not self.access.username or _is_lost(error):
                raise
            # A token expires with time and with a restart of the server; retry once with a new one.
            await self._log_in(services)
            return await request(services.store)

    async def changed_below(self, prefix: bytes, end: bytes, *, after: int) -> None:
        """Return when something below `prefix` changed, or when the watch was interrupted."""
        services = await self._open()
        stream = services.watching.watch(prefix, range_end=end, start_revision=after + 1)
        connections = 0
        with contextlib.suppress(*_FAILURES):
            async with contextlib.aclosing(stream) as responses:  # type: ignore[type-var]  # it is a generator
                async for response in responses:
                    # The library reconnects silently; each connection begins with `created`.
                    connections += bool(response.created)
                    if response.events or response.canceled or connections > 1:
                        return

    async def close(self) -> None:
        """Close all connections."""
        for services in (*self._retired, *([self._services] if self._services else [])):
            await services.channel.close()
        self._services, self._retired = None, []

    @asynccontextmanager
    async def _guarded(self, doing: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.access.deadline_s):
                yield
        except _FAILURES as error:
            self._is_stale = True
            raise self._unavailable(doing, _reason(error)) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not cancelled by the caller: the channel was closed during the call.
            raise self._unavailable(doing, "the connection was closed") from error

    def _unavailable(self, doing: str, problem: str) -> ConfigUnavailable:
        where = ", ".join(f"{host}:{port}" for host, port in self.access.hosts())
        return ConfigUnavailable(f"cannot {doing} etcd at {where}: {problem}")

    async def _open(self) -> _Services:
        async with self._opening:
            if self._services is None or self._is_stale:
                await self._renew()
                self._is_stale = False
            if self._services is None:
                raise ConfigUnavailable("the connection to etcd is closed")
            return self._services

    async def _renew(self) -> None:
        """Resolve the endpoints again, and open a new channel if they changed."""
        addresses = await _resolved(self.access.hosts())
        if self._services is not None and self._services.addresses == addresses:
            return
        fresh = self._open_channel(addresses)
        if self.access.username:
            await self._log_in(fresh)
        # Closing a channel cancels its pending calls, so the old one stays open until `close`.
        if self._services is not None:
            self._retired.append(self._services)
        self._services = fresh

    def _open_channel(self, addresses: tuple[str, ...]) -> _Services:
        connections = ConnectionManager(addresses)
        connections.grpc_options.extend(CHANNEL_OPTIONS)
        access = self.access
        channel = connections.get_channel(
            ca_cert=access.ca_certificate,
            cert_key=access.client_key,
            cert_chain=access.client_certificate,
            tls_server_name=access.server_name or access.hosts()[0][0],
        )
        watching = WatchService(
            channel,
            reconnect_backoff_seconds=WATCH_BACKOFF_S,
            max_reconnect_backoff_seconds=WATCH_BACKOFF_MAX_S,
        )
        return _Services(addresses, channel, KVService(channel), watching, AuthService(channel))

    async def _log_in(self, services: _Services) -> None:
        response = await services.auth.authenticate(self.access.username, self.access.password)
        services.store.set_token(response.token)
        services.watching.set_token(response.token)


async def _resolved(hosts: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Resolve to numeric addresses, because the client library accepts no host names."""
    loop = asyncio.get_running_loop()
    found: list[str] = []
    for host, port in hosts:
        addresses = await loop.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_STREAM)
        found += [f"{response[4][0]}:{port}" for response in addresses]
    return tuple(dict.fromkeys(found))


def _is_lost(error: Exception) -> bool:
    """Whether the server did not respond, rather than refuse."""
    if isinstance(error, OSError):  # includes TimeoutError
        return True
    cause = error if isinstance(error, grpc.RpcError) else error.__cause__
    code = cause.code() if isinstance(cause, grpc.aio.AioRpcError) else None
    return code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no response in time"
    # The library's errors wrap those of the server or the channel.
    cause = error.__cause__ if isinstance(error, EtcdError) and error.__cause__ else error
    if isinstance(cause, grpc.aio.AioRpcError):
        return cause.details() or str(cause.code())
    return str(cause) or type(cause).__name__
