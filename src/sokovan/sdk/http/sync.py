"""The HTTP client of the sync SDK, on sockets.

The command line loads it at every start, so that it loads no more than sockets need.
"""

from __future__ import annotations

import codecs
import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from sokovan.sdk.http.exchanges import HttpReply, HttpSocket, MalformedResponse, ServerAddress
from sokovan.sdk.http.requests import HttpFailure, HttpRequest

if TYPE_CHECKING:
    from ssl import SSLContext

# One per thread that uses the client at the same time, within reason.
KEPT_MAX = 16


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
        self._kept: list[HttpSocket] = []
        self._lock = threading.Lock()

    @contextmanager
    def exchange(self, request: HttpRequest) -> Iterator[HttpResponse]:
        """Send a request and give its response. Raises HttpFailure."""
        route, connection = self._connection(request)
        keep = False
        try:
            connection.socket.settimeout(request.read_s)
            # A tunnel passes the password of the proxy to the proxy only.
            headers = {**request.headers, **(route.headers if route.address.tunnel is None else {})}
            reply = connection.send(request.method, route.prefix + request.target, headers, request.content)
            yield _Response(reply)
            keep = reply.may_continue
        except (OSError, MalformedResponse) as error:
            raise HttpFailure(error, sent=True, slow=isinstance(error, TimeoutError)) from error
        finally:
            self._put_back(connection, keep=keep)

    def close(self) -> None:
        """Close the kept connections."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def _connection(self, request: HttpRequest) -> tuple[Route, HttpSocket]:
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
            connection = HttpSocket(route.address, timeout_s=request.connect_s, proxy_headers=route.headers)
        except (OSError, MalformedResponse, ValueError) as error:
            raise HttpFailure(error, sent=False, slow=isinstance(error, TimeoutError)) from error
        return route, connection

    def _put_back(self, connection: HttpSocket, *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._kept) < KEPT_MAX:
                self._kept.append(connection)
                return
        connection.close()


class _Response:
    """A response, as text as well."""

    def __init__(self, reply: HttpReply) -> None:
        self._reply = reply
        self.status_code = reply.status_code
        self.headers: Mapping[str, str] = reply.headers

    def read(self) -> bytes:
        """All of the content."""
        return self._reply.read()

    def iter_text(self) -> Iterator[str]:
        """The content as it arrives, as text."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for content in self._reply.parts():
            yield decoder.decode(content)


class Route(NamedTuple):
    """The address to connect to, and the prefix and headers of each request."""

    address: ServerAddress
    prefix: str = ""
    headers: Mapping[str, str] = MappingProxyType({})


def route_to(url: str, *, proxies: bool, ca: str = "") -> Route:
    """The way to a server. Raises ValueError, OSError."""
    parts = urlsplit(url)
    secure, host = parts.scheme == "https", parts.hostname or ""
    port, path = parts.port or (443 if secure else 80), parts.path.rstrip("/")
    context = certificates(ca) if secure else None
    proxy = _proxy(parts) if proxies else None
    if proxy is None:
        return Route(ServerAddress(host, port, context), prefix=path)
    if proxy.scheme != "http":
        raise ValueError(f"the proxy {proxy.scheme}://{proxy.hostname} is not supported; use one at http://")
    place, headers = (proxy.hostname or "", proxy.port or 80), _credentials(proxy)
    if secure:
        return Route(ServerAddress(*place, context, (host, port)), path, headers)
    return Route(ServerAddress(*place), f"{parts.scheme}://{parts.netloc}{path}", headers)


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


def _is_open(connection: HttpSocket) -> bool:
    """Whether the server has neither closed a kept connection nor sent something unasked."""
    poll = select.poll()
    poll.register(connection.socket, select.POLLIN)
    return not poll.poll(0)
