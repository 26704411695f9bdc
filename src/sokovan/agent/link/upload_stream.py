"""Receives uploads from the manager, over a socket of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

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
    """The UploadSource port on connections to managers.

    An upload is on the manager that received it, so that each is asked.
    """

    def __init__(self, addresses: Iterable[ManagerAddress]) -> None:
        self._addresses = addresses

    async def parts(self, reference: str) -> AsyncGenerator[UploadFile | bytes, None]:
        """The files of an upload, each followed by its content. Raises RuntimeFailure."""
        problems: list[str] = []
        for address in self._addresses:
            begun = False
            try:
                async for part in _parts_of(address, reference):
                    begun = True
                    yield part
            except UploadUnavailable as problem:
                if begun:
                    raise
                problems.append(problem.message)
            else:
                return
        raise UploadUnavailable("; ".join(dict.fromkeys(problems)) or f"upload {reference}: no manager is known")


async def _parts_of(address: ManagerAddress, reference: str) -> AsyncGenerator[UploadFile | bytes, None]:
    """The parts of an upload of one manager. Raises UploadUnavailable."""
    try:
        async with dialled(address, UPLOAD_PATH + reference) as socket:
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
