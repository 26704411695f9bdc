"""Messages of the stream that brings an upload to an agent.

Each file is a header, then its content in binary messages; the last message is the end.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from sokovan.wire.link_codec import MalformedFrame

CHUNK_BYTES_MAX = 256 << 10


class FileHeader(Struct, frozen=True, tag="file"):
    """The next file; `size` bytes of content follow."""

    path: str
    digest: str
    size: int
    executable: bool = False


class UploadEnd(Struct, frozen=True, tag="end"):
    """The upload is complete."""


UploadMessage: TypeAlias = FileHeader | UploadEnd
_decoder = msgspec.json.Decoder(UploadMessage)


def encode_upload_message(message: UploadMessage) -> str:
    """A message as text."""
    return msgspec.json.encode(message).decode()


def decode_upload_message(text: str) -> UploadMessage:
    """Parse a message. Raises MalformedFrame."""
    try:
        message: UploadMessage = _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise MalformedFrame(f"not a message of an upload: {error}") from error
    return message
