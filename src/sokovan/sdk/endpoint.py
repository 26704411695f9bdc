"""Address of the server, and the HTTP options of both clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec

from sokovan import __version__
from sokovan.sdk.config import is_loopback
from sokovan.sdk.core.calls import Call
from sokovan.sdk.errors import Unreachable

USER_AGENT = f"sokovan-python/{__version__}"
# Read timeout of a stream; the server sends keep-alive comments more often than this.
STREAM_TIMEOUT_S = 45.0
# Tolerated overrun of a deadline, before a stream is reopened with a shorter read timeout.
OVERRUN_S = 0.5


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """Address, API key and timeouts of a server."""

    url: str
    token: str = field(repr=False)
    timeout_s: float = 30.0
    connect_s: float = 5.0

    @property
    def socket_url(self) -> str:
        """The address for WebSockets."""
        return self.url.replace("http", "ws", 1)

    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"Authorization": f"Bearer {self.token}", "User-Agent": USER_AGENT}

    def http_options(self) -> dict[str, Any]:
        """Keyword arguments of the HTTP client."""
        return {
            "base_url": self.url,
            "headers": {**self.headers(), "Accept": "application/json"},
            "timeout": self._timeout(self.timeout_s),
            # Loading the system's certificates takes longer than a request, and http:// does not need them.
            "verify": self.url.startswith("https"),
            # A proxy cannot reach the loopback address.
            "trust_env": not self.is_loopback,
            "follow_redirects": False,
        }

    def request_options(self, call: Call[Any]) -> dict[str, Any]:
        """Keyword arguments of a request."""
        options: dict[str, Any] = {"params": dict(call.query), "headers": dict(call.headers)}
        if call.body is not None:
            options["content"] = msgspec.json.encode(call.body)
            options["headers"]["Content-Type"] = "application/json"
        elif call.content is not None:
            options["content"] = call.content
            options["headers"].setdefault("Content-Type", "application/octet-stream")
        return options

    def stream_options(self, call: Call[Any], left_s: float | None = None) -> dict[str, Any]:
        """Keyword arguments of a stream; a read times out at the deadline."""
        read_s = STREAM_TIMEOUT_S if left_s is None else max(0.01, min(STREAM_TIMEOUT_S, left_s))
        options = self.request_options(call)
        options["headers"]["Accept"] = "text/event-stream"
        return {**options, "timeout": self._timeout(read_s)}

    def _timeout(self, read_s: float) -> httpx2.Timeout:
        return httpx2.Timeout(read_s, connect=min(self.connect_s, read_s))

    @property
    def is_loopback(self) -> bool:
        """Whether the address is of this machine."""
        return is_loopback(self.url)


@contextmanager
def reaching(endpoint: ServerEndpoint) -> Iterator[None]:
    """Translate network errors. Raises Unreachable."""
    try:
        yield
    except (httpx2.RequestError, httpx2.InvalidURL) as error:
        raise _unreachable(endpoint, error) from error


def _unreachable(endpoint: ServerEndpoint, error: Exception) -> Unreachable:
    sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.InvalidURL)
    slow = isinstance(error, httpx2.TimeoutException)
    outcome = "did not respond in time" if slow else f"cannot be reached: {str(error) or type(error).__name__}"
    return Unreachable(f"the server at {endpoint.url} {outcome}", sent=sent)


def outlasts(options: dict[str, Any], left_s: float | None) -> bool:
    """Whether a read of a stream may take longer than the time left."""
    return left_s is not None and options["timeout"].read > left_s + OVERRUN_S
