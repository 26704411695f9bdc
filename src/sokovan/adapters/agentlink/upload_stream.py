"""Sends an upload to an agent that asked for it."""

from __future__ import annotations

from sokovan.adapters.agentlink.duplex import Stream
from sokovan.domain.errors import ObjectNotFound
from sokovan.ports.uploads import UploadStore
from sokovan.wire.upload_messages import CHUNK_BYTES_MAX, FileHeader, UploadEnd, encode_upload_message


async def send_upload(stream: Stream, uploads: UploadStore, reference: str) -> None:
    """Send every file of an upload; an unknown one only ends the stream."""
    try:
        manifest = await uploads.manifest(reference)
        for file in manifest.files:
            header = FileHeader(file.path, file.digest, file.size, file.executable)
            await stream.send(encode_upload_message(header))
            sent = 0
            while sent < file.size:
                part = await uploads.read(reference, file.digest, offset=sent, limit=CHUNK_BYTES_MAX)
                if not part:
                    return
                await stream.send(part)
                sent += len(part)
        await stream.send(encode_upload_message(UploadEnd()))
    except (ConnectionError, ObjectNotFound):
        return
