"""Messages of a machine that joins, and of an agent that renews its certificate."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from sokovan.wire.frames import ShortText
from sokovan.wire.link_codec import MalformedFrame

# Paths of the listener for other machines: its authority's certificate, joining, renewing.
AUTHORITY_PATH = "/agent/v1/authority"
JOIN_PATH = "/agent/v1/join"
RENEW_PATH = "/agent/v1/renew"
# The name in the certificate of every manager, whichever address it is reached at.
MANAGER_NAME = "manager.sokovan.internal"
# The name in the certificate that a manager presents to others; the name of an agent has no blank.
PEER_NAME = "another manager"
MESSAGE_BYTES_MAX = 64 << 10
MANAGERS_MAX = 64

Pem: TypeAlias = Annotated[str, Meta(max_length=16_384)]


class JoinRequest(Struct, frozen=True, tag="join"):
    """A machine joins as `agent_id`; `request` is its certificate signing request.

    `token` is empty if an agent renews its certificate.
    """

    agent_id: ShortText
    request: Pem
    token: ShortText = ""


class JoinGranted(Struct, frozen=True, tag="granted"):
    """The certificate of the agent, and the scaling group that it joins.

    `managers` are the URLs of all managers, if there are several.
    """

    certificate: Pem
    scaling_group: ShortText
    managers: Annotated[tuple[ShortText, ...], Meta(max_length=MANAGERS_MAX)] = ()


class JoinDenied(Struct, frozen=True, tag="denied"):
    """The request is refused."""

    code: ShortText
    message: ShortText
    hint: ShortText = ""


JoinReply: TypeAlias = JoinGranted | JoinDenied
M = TypeVar("M")


def encode_join(message: JoinRequest | JoinReply) -> bytes:
    """A message as bytes."""
    return msgspec.json.encode(message)


def decode_request(content: bytes | str) -> JoinRequest:
    """Parse a request. Raises MalformedFrame."""
    return _decoded(content, JoinRequest)


def decode_reply(content: bytes | str) -> JoinReply:
    """Parse a reply. Raises MalformedFrame."""
    reply: JoinReply = _decoded(content, JoinReply)  # type: ignore[arg-type]  # a union is a type to the decoder
    return reply


def _decoded(content: bytes | str, kind: type[M]) -> M:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise MalformedFrame(f"not a message of joining: {error}") from error
