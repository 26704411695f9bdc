"""Answers the requests of managers for files of kernels."""

from __future__ import annotations

from sokovan.domain.ids import KernelId
from sokovan.ports.kernel_files import FileListing, FileRefused, KernelFiles, KernelPath, OutputState
from sokovan.wire.frames import (
    FileData,
    FileEntry,
    FileList,
    ListFiles,
    OutputStatus,
    PlaceUpload,
    ReadFile,
    Reply,
    UploadPlaced,
)


async def answered(files: KernelFiles | None, command: ListFiles | ReadFile | PlaceUpload) -> Reply:
    """The reply to a request. Raises RuntimeFailure."""
    if files is None:
        raise FileRefused("this agent has no files of kernels", hint="use a session on another agent")
    place = KernelPath(KernelId(command.kernel_id), command.attempt, command.path)
    match command:
        case ListFiles():
            return _list_of(await files.list(place, after=command.after, files_max=command.files_max))
        case ReadFile():
            part = await files.read(place, offset=command.offset, limit=command.limit, mark=command.mark)
            return FileData(part.data, part.size, part.mark)
        case PlaceUpload():
            placed = await files.put(place, command.upload)
            return UploadPlaced(placed.done, placed.path)


def _list_of(listing: FileListing) -> FileList:
    return FileList(
        is_folder=listing.is_folder,
        files=tuple(FileEntry(one.path, one.size, one.modified_ms, one.executable) for one in listing.files),
        more=listing.more,
        left_out=listing.left_out,
        left_out_names=listing.left_out_names,
        output=_status_of(listing.output),
    )


def _status_of(state: OutputState | None) -> OutputStatus | None:
    if state is None:
        return None
    return OutputStatus(
        session_bytes_max=state.session_bytes_max,
        owner_bytes=state.owner_bytes,
        owner_bytes_max=state.owner_bytes_max,
        kept_until_ms=state.kept_until_ms,
        dropped_files=state.dropped_files,
        dropped_bytes=state.dropped_bytes,
    )
