"""WebSocket options, and the errors for a failed or lost connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import InvalidHandshake, InvalidStatus

from sokovan.sdk.core.responses import problem_of
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.errors import ClientProblem, Unreachable
from sokovan.sdk.http.sync import certificates
from sokovan.wire.api.execution import FRAME_MAX


def socket_options(endpoint: ServerEndpoint) -> dict[str, Any]:
    """Keyword arguments of `websockets.connect`, sync and async."""
    return {
        "additional_headers": endpoint.headers(),
        "user_agent_header": None,
        # The answer to the handshake is that to a request: the server checks the key and reads the session first.
        "open_timeout": endpoint.connect_s + endpoint.timeout_s,
        "close_timeout": 1.0,
        "max_size": FRAME_MAX * 2,
        "proxy": None,
        **({"ssl": certificates(endpoint.ca)} if endpoint.ca and endpoint.url.startswith("https") else {}),
    }


@contextmanager
def connecting(endpoint: ServerEndpoint) -> Iterator[None]:
    """Translate errors of opening a socket. Raises ClientProblem."""
    try:
        yield
    except InvalidStatus as error:
        raise refusal(error) from error
    except (OSError, InvalidHandshake) as error:
        raise connection_lost(endpoint, error) from error


def refusal(error: InvalidStatus) -> ClientProblem:
    """The problem in the server's response to the handshake."""
    headers = {name.lower(): value for name, value in error.response.headers.raw_items()}
    return problem_of(status=error.response.status_code, headers=headers, content=bytes(error.response.body or b""))


def connection_lost(endpoint: ServerEndpoint, error: Exception) -> Unreachable:
    """The error for a broken connection."""
    return Unreachable(f"the connection to {endpoint.url} is lost: {error}")
