"""Receives uploads from the manager, over a socket of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from websockets.exceptions import WebSocketException

from sokovan.agent.link.manager_link import ManagerAddress, dialled
from sokovan.domain.owners.uploads import UploadFile
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import UPLOAD_PATH
from sokovan.wire.link_codec import MalformedFrame
from sokovan.wire.upload_messages import FileHeader, UploadEnd, decode_upload_message


class UploadUnavailable(RuntimeFailure):
    """An upload could not be fetched from the manager."""

    code = "upload-unavailable"
    hint = "send it again with sokovan run --upload; the server removes uploads that are not used"


class UploadReceiver:
    """The UploadSource port on a connection to the manager."""

    def __init__(self, address: ManagerAddress) -> None:
        self._address = address

    async def parts(self, reference: str) -> AsyncGenerator[UploadFile | bytes, None]:
        """The files of an upload, each followed by its content. Raises RuntimeFailure."""
        try:
            async with dialled(self._address, UPLOAD_PATH + reference) as socket:
                async for content in socket:
                    if isinstance(content, bytes):
                        yield content
                        continue
                    match decode_upload_message(content):
                        case FileHeader() as header:
                            yield UploadFile(header.path, header.digest, header.size, executable=header.executable)
                        case UploadEnd():
                            return
        except (OSError, TimeoutError, WebSocketException, MalformedFrame) as problem:
            raise UploadUnavailable(f"upload {reference}: {str(problem) or type(problem).__name__}") from problem
        raise UploadUnavailable(f"upload {reference}: the manager does not have it, or not all of it")
