"""The HTTP client of the sync SDK, on the standard library.

The command line loads it at every start, so that it loads no more than sockets need.
"""

from __future__ import annotations

import codecs
import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from sokovan.sdk.http.requests import HttpFailure, HttpRequest

if TYPE_CHECKING:
    from ssl import SSLContext

# One per thread that uses the client at the same time, within reason.
KEPT_MAX = 16
_PIECE = 64 << 10


class HttpResponse(Protocol):
    """A response whose content is still to be read."""

    @property
    def status_code(self) -> int:
        """The status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names are found in any case."""

    def read(self) -> bytes:
        """All of the content."""

    def iter_text(self) -> Iterator[str]:
        """The content as it arrives, as text."""


class Transport(Protocol):
    """Sends requests."""

    def exchange(self, request: HttpRequest) -> AbstractContextManager[HttpResponse]:
        """Send a request and give its response. Raises HttpFailure."""

    def close(self) -> None:
        """Close the sockets."""


class Http:
    """Sends requests, to a server or to the `transport` of a test."""

    def __init__(self, url: str, *, proxies: bool, ca: str = "", transport: Transport | None = None) -> None:
        self._transport = transport or SocketTransport(url, proxies=proxies, ca=ca)

    def exchange(self, request: HttpRequest) -> AbstractContextManager[HttpResponse]:
        """Send a request and give its response. Raises HttpFailure."""
        return self._transport.exchange(request)

    def close(self) -> None:
        """Close the sockets."""
        self._transport.close()


class SocketTransport:
    """Sends requests over kept connections; may be shared by several threads.

    With `proxies`, those of the environment are used. `ca` is the file of the authority of
    the server's certificate; empty: those of the system.
    """

    def __init__(self, url: str, *, proxies: bool, ca: str = "") -> None:
        self._url, self._proxies, self._ca = url, proxies, ca
        self._route: Route | None = None
        self._kept: list[HTTPConnection] = []
        self._lock = threading.Lock()

    @contextmanager
    def exchange(self, request: HttpRequest) -> Iterator[HttpResponse]:
        """Send a request and give its response. Raises HttpFailure."""
        route, connection = self._connection(request)
        keep = False
        try:
            connection.sock.settimeout(request.read_s)
            # A tunnel passes the password of the proxy to the proxy only.
            headers = {**request.headers, **(route.headers if route.tunnel is None else {})}
            connection.request(request.method, route.prefix + request.target, body=request.content, headers=headers)
            response = connection.getresponse()
            yield _Response(response)
            keep = response.isclosed() and not response.will_close
        except (OSError, HTTPException) as error:
            raise HttpFailure(error, sent=True, slow=isinstance(error, TimeoutError)) from error
        finally:
            self._put_back(connection, keep=keep)

    def close(self) -> None:
        """Close the kept connections."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def _connection(self, request: HttpRequest) -> tuple[Route, HTTPConnection]:
        """A kept connection, or a new one. Raises HttpFailure."""
        try:
            route = self._route = self._route or route_to(self._url, proxies=self._proxies, ca=self._ca)
            while self._kept:
                with self._lock:
                    connection = self._kept.pop() if self._kept else None
                if connection is None:
                    break
                if _is_open(connection):
                    return route, connection
                connection.close()
            connection = route.connection(request.connect_s)
            connection.connect()
        except (OSError, HTTPException, ValueError) as error:
            raise HttpFailure(error, sent=False, slow=isinstance(error, TimeoutError)) from error
        return route, connection

    def _put_back(self, connection: HTTPConnection, *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._kept) < KEPT_MAX:
                self._kept.append(connection)
                return
        connection.close()


class _Response:
    """A response of the standard library."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        self.status_code = response.status
        self.headers: Mapping[str, str] = response.headers  # type: ignore[assignment]  # has `get`, of any case

    def read(self) -> bytes:
        """All of the content."""
        return self._response.read()

    def iter_text(self) -> Iterator[str]:
        """The content as it arrives, as text."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while content := self._response.read1(_PIECE):
            yield decoder.decode(content)


class Route(NamedTuple):
    """The address to connect to, and the prefix and headers of each request."""

    host: str
    port: int
    context: SSLContext | None = None
    tunnel: tuple[str, int] | None = None
    prefix: str = ""
    headers: Mapping[str, str] = MappingProxyType({})

    def connection(self, timeout_s: float) -> HTTPConnection:
        """A connection that is not open yet."""
        if self.context is None:
            return HTTPConnection(self.host, self.port, timeout=timeout_s)
        connection = HTTPSConnection(self.host, self.port, timeout=timeout_s, context=self.context)
        if self.tunnel is not None:
            connection.set_tunnel(*self.tunnel, headers=dict(self.headers))
        return connection


def route_to(url: str, *, proxies: bool, ca: str = "") -> Route:
    """The way to a server. Raises ValueError, OSError."""
    parts = urlsplit(url)
    secure, host = parts.scheme == "https", parts.hostname or ""
    port, path = parts.port or (443 if secure else 80), parts.path.rstrip("/")
    context = certificates(ca) if secure else None
    proxy = _proxy(parts) if proxies else None
    if proxy is None:
        return Route(host, port, context, prefix=path)
    if proxy.scheme != "http":
        raise ValueError(f"the proxy {proxy.scheme}://{proxy.hostname} is not supported; use one at http://")
    headers = _credentials(proxy)
    way = Route(proxy.hostname or "", proxy.port or 80, context, headers=headers)
    if secure:
        return way._replace(tunnel=(host, port), prefix=path)
    return way._replace(prefix=f"{parts.scheme}://{parts.netloc}{path}")


def certificates(ca: str) -> SSLContext:
    """The trusted authorities: that of a file, or those of the system. Raises OSError."""
    if ca:
        import ssl  # noqa: PLC0415  # only for https

        return ssl.create_default_context(cafile=ca)
    # Of the system, like those of the async client; loading them takes longer than a request.
    import httpx2  # noqa: PLC0415  # only for https

    return httpx2.create_ssl_context()


def _proxy(parts: SplitResult) -> SplitResult | None:
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  # only for servers elsewhere

    known = getproxies()
    found = known.get(parts.scheme) or known.get("all")
    if not found or proxy_bypass(parts.hostname or ""):
        return None
    return urlsplit(found if "://" in found else f"http://{found}")


def _credentials(proxy: SplitResult) -> Mapping[str, str]:
    if proxy.username is None:
        return {}
    from base64 import b64encode  # noqa: PLC0415  # only for a proxy with a password

    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _is_open(connection: HTTPConnection) -> bool:
    """Whether the server has neither closed a kept connection nor sent something unasked."""
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)
