"""Sends an upload to an agent that asked for it, or to another manager."""

from __future__ import annotations

from sokovan.adapters.agentlink.duplex import Stream
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.owners.uploads import UploadRefused
from sokovan.ports.uploads import UploadStore
from sokovan.wire.upload_messages import CHUNK_BYTES_MAX, FileHeader, UploadEnd, encode_upload_message


async def send_upload(stream: Stream, uploads: UploadStore, reference: str) -> None:
    """Send every file of an upload; an unknown one only ends the stream."""
    try:
        manifest = await uploads.manifest(reference)
        for file in manifest.files:
            header = FileHeader(file.path, file.digest, file.size, file.executable)
            if not await _send_blob(stream, uploads, reference, header):
                return
        await stream.send(encode_upload_message(UploadEnd()))
    except (ConnectionError, ObjectNotFound, UploadRefused):
        return


async def send_copy(stream: Stream, uploads: UploadStore, reference: str) -> None:
    """Send the manifest of an upload, and each of its blobs once.

    An unknown one only ends the stream.
    """
    try:
        manifest = await uploads.manifest(reference)
        _, _, own = reference.partition("/")
        size = 0
        while part := await uploads.read(reference, own, offset=size, limit=CHUNK_BYTES_MAX):
            size += len(part)
        for digest, length in {own: size, **{one.digest: one.size for one in manifest.files}}.items():
            if not await _send_blob(stream, uploads, reference, FileHeader("", digest, length)):
                return
        await stream.send(encode_upload_message(UploadEnd()))
    except (ConnectionError, ObjectNotFound):
        return


async def _send_blob(stream: Stream, uploads: UploadStore, reference: str, header: FileHeader) -> bool:
    """Send a header and its content; False if the store does not have all of it."""
    await stream.send(encode_upload_message(header))
    sent = 0
    while sent < header.size:
        part = await uploads.read(reference, header.digest, offset=sent, limit=CHUNK_BYTES_MAX)
        if not part:
            return False
        await stream.send(part)
        sent += len(part)
    return True
