"""The manager sends an upload: each file, its content, and the end."""

from __future__ import annotations

from pathlib import Path

from sokovan.adapters.agentlink.upload_stream import send_upload
from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.domain.owners.uploads import upload_reference
from sokovan.testing.contracts.uploads import digest_of, manifest_of, put
from sokovan.wire.upload_messages import CHUNK_BYTES_MAX, FileHeader, UploadEnd, decode_upload_message


class Sent:
    """The agent's end of a stream."""

    def __init__(self) -> None:
        self.messages: list[bytes | str] = []

    async def receive(self) -> bytes | str | None:
        """Nothing is received."""
        return None

    async def send(self, content: bytes | str) -> None:
        """Keep a message."""
        self.messages.append(content)


async def test_every_file_is_sent_in_parts_and_then_the_end(tmp_path: Path) -> None:
    store, large = LocalUploads(tmp_path), b"x" * (CHUNK_BYTES_MAX + 1)
    upload = await put(store, manifest_of(large, b""))
    for content in (large, b""):
        await put(store, content)
    await store.check("kim", upload)
    sent = Sent()
    await send_upload(sent, store, upload_reference("kim", upload))
    texts = [decode_upload_message(each) for each in sent.messages if isinstance(each, str)]
    assert texts == [
        FileHeader("f0", digest_of(large), len(large)),
        FileHeader("f1", digest_of(b""), 0),
        UploadEnd(),
    ]
    assert b"".join(each for each in sent.messages if isinstance(each, bytes)) == large


async def test_an_unknown_upload_is_an_empty_stream(tmp_path: Path) -> None:
    sent = Sent()
    await send_upload(sent, LocalUploads(tmp_path), "nothing")
    assert sent.messages == []
