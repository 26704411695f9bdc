"""Address of the server, and the HTTP requests of both clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from sokovan import __version__
from sokovan.sdk.config import is_loopback
from sokovan.sdk.core.calls import Call
from sokovan.sdk.errors import InvalidSetting, Unreachable
from sokovan.sdk.http.requests import HttpFailure, HttpRequest
from sokovan.wire.plain_codec import encoded

USER_AGENT = f"sokovan-python/{__version__}"
# Read timeout of a stream; the server sends keep-alive comments more often than this.
STREAM_TIMEOUT_S = 45.0
# Tolerated overrun of a deadline, before a stream is reopened with a shorter read timeout.
OVERRUN_S = 0.5
_HEADER_HINT = "check the API key of the context, and idempotency keys"


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """Address, API key and timeouts of a server; `ca` as in a context."""

    url: str
    token: str = field(repr=False)
    timeout_s: float = 30.0
    connect_s: float = 5.0
    ca: str = ""

    @property
    def socket_url(self) -> str:
        """The address for WebSockets."""
        return self.url.replace("http", "ws", 1)

    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"Authorization": f"Bearer {self.token}", "User-Agent": USER_AGENT}

    def request(self, call: Call[Any]) -> HttpRequest:
        """The request of a call."""
        return self._request(call, self.timeout_s, accept="application/json")

    def stream(self, call: Call[Any], left_s: float | None = None) -> HttpRequest:
        """The request of a stream; a read times out at the deadline."""
        read_s = STREAM_TIMEOUT_S if left_s is None else max(0.01, min(STREAM_TIMEOUT_S, left_s))
        return self._request(call, read_s, accept="text/event-stream")

    def _request(self, call: Call[Any], read_s: float, *, accept: str) -> HttpRequest:
        headers, content = {**self.headers(), "Accept": accept, **call.headers}, call.content
        if call.body is not None:
            content = encoded(call.body)
            headers["Content-Type"] = "application/json"
        elif content is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
        for name, value in headers.items():
            # Checked here: errors of HTTP clients would show the value, which may be a key.
            if not value.isascii() or not value.isprintable():
                raise InvalidSetting(f"the value of {name} has characters that no header may have", hint=_HEADER_HINT)
        return HttpRequest(
            method=call.method,
            target=f"{call.path}?{urlencode(call.query)}" if call.query else call.path,
            headers=headers,
            content=content,
            read_s=read_s,
            connect_s=min(self.connect_s, read_s),
        )

    @property
    def is_loopback(self) -> bool:
        """Whether the address is of this machine."""
        return is_loopback(self.url)


@contextmanager
def reaching(endpoint: ServerEndpoint) -> Iterator[None]:
    """Translate network errors. Raises Unreachable."""
    try:
        yield
    except HttpFailure as error:
        outcome = "did not respond in time" if error.slow else f"cannot be reached: {error}"
        raise Unreachable(f"the server at {endpoint.url} {outcome}", sent=error.sent) from error


def outlasts(request: HttpRequest, left_s: float | None) -> bool:
    """Whether a read of a stream may take longer than the time left."""
    return left_s is not None and request.read_s > left_s + OVERRUN_S
