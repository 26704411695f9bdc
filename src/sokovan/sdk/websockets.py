"""How a socket is opened, and what it means when it is not, or does not last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import InvalidHandshake, InvalidStatus

from sokovan.sdk.core.responses import problem_of
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.errors import ClientProblem, Unreachable
from sokovan.wire.api.execution import FRAME_MAX


def socket_options(endpoint: ServerEndpoint) -> dict[str, Any]:
    """How websockets connects, sync or async."""
    return {
        "additional_headers": endpoint.headers(),
        "user_agent_header": None,
        "open_timeout": endpoint.connect_s,
        "close_timeout": 1.0,
        "max_size": FRAME_MAX * 2,
        "proxy": None,
    }


@contextmanager
def connecting(endpoint: ServerEndpoint) -> Iterator[None]:
    """Say what went wrong while a socket was opened. Raises ClientProblem."""
    try:
        yield
    except InvalidStatus as error:
        raise refusal(error) from error
    except (OSError, InvalidHandshake) as error:
        raise lost(endpoint, error) from error


def refusal(error: InvalidStatus) -> ClientProblem:
    """The problem that the server answered with instead."""
    headers = {name.lower(): value for name, value in error.response.headers.raw_items()}
    return problem_of(status=error.response.status_code, headers=headers, content=bytes(error.response.body or b""))


def lost(endpoint: ServerEndpoint, error: Exception) -> Unreachable:
    """The problem that a broken socket is."""
    return Unreachable(f"the connection to {endpoint.url} is lost: {error}")
