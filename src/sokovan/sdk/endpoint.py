"""Where the server is, and how both clients speak to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec

from sokovan import __version__
from sokovan.sdk.core.calls import Call
from sokovan.sdk.errors import Unreachable

AGENT = f"sokovan-python/{__version__}"
# The server shows that a silent stream is alive more often than this.
SILENCE_S = 45.0
# By how much a deadline may be missed, before a stream is opened anew with a shorter patience.
LATE_S = 0.5


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """The address of a server, the key for it, and how long to wait for it."""

    url: str
    token: str = field(repr=False)
    timeout_s: float = 30.0
    connect_s: float = 5.0

    @property
    def socket_url(self) -> str:
        """The same address for WebSockets."""
        return self.url.replace("http", "ws", 1)

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.token}", "User-Agent": AGENT}

    def http_options(self) -> dict[str, Any]:
        """How the HTTP client is made."""
        return {
            "base_url": self.url,
            "headers": {**self.headers(), "Accept": "application/json"},
            "timeout": self._timeout(self.timeout_s),
            # Loading the certificates of the machine takes longer than a request, and http:// has no use for them.
            "verify": self.url.startswith("https"),
            # A proxy of the company does not know our loopback.
            "trust_env": not self._is_loopback(),
            "follow_redirects": False,
        }

    def request_options(self, call: Call[Any]) -> dict[str, Any]:
        """How a call becomes a request."""
        options: dict[str, Any] = {"params": dict(call.query), "headers": dict(call.headers)}
        if call.body is not None:
            options["content"] = msgspec.json.encode(call.body)
            options["headers"]["Content-Type"] = "application/json"
        return options

    def stream_options(self, call: Call[Any], left_s: float | None = None) -> dict[str, Any]:
        """How a call opens a stream; a read never reaches past what time is left."""
        silence = SILENCE_S if left_s is None else max(0.01, min(SILENCE_S, left_s))
        options = self.request_options(call)
        options["headers"]["Accept"] = "text/event-stream"
        return {**options, "timeout": self._timeout(silence)}

    def _timeout(self, read_s: float) -> httpx2.Timeout:
        return httpx2.Timeout(read_s, connect=min(self.connect_s, read_s))

    def _is_loopback(self) -> bool:
        host = urlsplit(self.url).hostname or ""
        return host in {"localhost", "::1"} or host.startswith("127.")


@contextmanager
def reaching(endpoint: ServerEndpoint) -> Iterator[None]:
    """Turn failures of the network into ours. Raises Unreachable."""
    try:
        yield
    except (httpx2.RequestError, httpx2.InvalidURL) as error:
        raise _out_of_reach(endpoint, error) from error


def _out_of_reach(endpoint: ServerEndpoint, error: Exception) -> Unreachable:
    sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.InvalidURL)
    slow = isinstance(error, httpx2.TimeoutException)
    told = "did not answer in time" if slow else f"cannot be reached: {str(error) or type(error).__name__}"
    return Unreachable(f"the server at {endpoint.url} {told}", sent=sent)


def outlasts(options: dict[str, Any], left_s: float | None) -> bool:
    """Whether a read of a stream may take longer than the time that is left."""
    return left_s is not None and options["timeout"].read > left_s + LATE_S
