"""The first line of a connection to an agent's data listener, and its answer.

A proxy on another machine sends one line of JSON. The agent answers with one line: ACCEPTED,
after which the connection is that to the kernel's port, or a reason, after which it closes.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

LINE_BYTES_MAX = 1_024
ACCEPTED = b"ok"


class RelayRequest(Struct, frozen=True):
    """The port of a kernel in one attempt, and the ticket for it."""

    kernel_id: Annotated[str, Meta(min_length=1, max_length=200)]
    attempt: Annotated[int, Meta(ge=1, le=2**62)]
    port: Annotated[int, Meta(ge=1, le=65_535)]
    ticket: Annotated[str, Meta(max_length=128, pattern=r"^[0-9a-f]*\Z")]

    @property
    def endpoint_id(self) -> str:
        """The name of the endpoint, as in the route table."""
        return f"{self.kernel_id}.{self.attempt}"


class MalformedRelayRequest(ValueError):
    """A first line that is none."""


def encode_relay(request: RelayRequest) -> bytes:
    """The line for a request."""
    return msgspec.json.encode(request) + b"\n"


def decode_relay(line: bytes) -> RelayRequest:
    """The request of a line. Raises MalformedRelayRequest."""
    try:
        return msgspec.json.decode(line, type=RelayRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRelayRequest(str(error)) from error
