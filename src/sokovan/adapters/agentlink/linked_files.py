"""The AgentFiles port over the links of agents."""

from __future__ import annotations

from typing import Protocol, TypeVar

from sokovan.domain.ids import AgentId
from sokovan.ports.kernel_files import FileInfo, FileListing, FilePart, KernelPath, OutputState, UploadPlacement
from sokovan.wire import frames

R = TypeVar("R", frames.FileList, frames.FileData, frames.UploadPlaced)


class FileRequest(Protocol):
    """Sends a command to an agent, for one incarnation of it or, with 0, for any."""

    async def __call__(self, agent_id: AgentId, incarnation: int, command: frames.Command, expected: type[R], /) -> R:
        """Its reply. Raises AgentUnreachable, AgentRefused."""


class LinkedFiles:
    """Requests for files, each for any incarnation of the agent."""

    def __init__(self, request: FileRequest) -> None:
        self._request = request

    async def list(self, agent_id: AgentId, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        """See the port."""
        command = frames.ListFiles(
            kernel_id=place.kernel_id, attempt=place.attempt, path=place.path, after=after, files_max=files_max
        )
        return _listing_of(await self._request(agent_id, 0, command, frames.FileList))

    async def read(self, agent_id: AgentId, place: KernelPath, *, offset: int, limit: int, mark: str) -> FilePart:
        """See the port."""
        command = frames.ReadFile(
            kernel_id=place.kernel_id, attempt=place.attempt, path=place.path, offset=offset, limit=limit, mark=mark
        )
        reply = await self._request(agent_id, 0, command, frames.FileData)
        return FilePart(reply.data, reply.size, reply.mark)

    async def put(self, agent_id: AgentId, place: KernelPath, upload: str) -> UploadPlacement:
        """See the port."""
        command = frames.PlaceUpload(kernel_id=place.kernel_id, attempt=place.attempt, upload=upload, path=place.path)
        reply = await self._request(agent_id, 0, command, frames.UploadPlaced)
        return UploadPlacement(reply.done, reply.path)


def _listing_of(reply: frames.FileList) -> FileListing:
    return FileListing(
        is_folder=reply.is_folder,
        files=tuple(FileInfo(one.path, one.size, one.modified_ms, one.executable) for one in reply.files),
        more=reply.more,
        left_out=reply.left_out,
        left_out_names=reply.left_out_names,
        output=_state_of(reply.output),
    )


def _state_of(status: frames.OutputStatus | None) -> OutputState | None:
    if status is None:
        return None
    return OutputState(
        session_bytes_max=status.session_bytes_max,
        owner_bytes=status.owner_bytes,
        owner_bytes_max=status.owner_bytes_max,
        kept_until_ms=status.kept_until_ms,
        dropped_files=status.dropped_files,
        dropped_bytes=status.dropped_bytes,
    )
