"""Files of sessions, for the async client."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.uploads import AsyncUploads
from sokovan.sdk.core import upload_calls
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.local_files import CopyResult, local_path, local_target, make_folder
from sokovan.sdk.upload_folder import read_tree
from sokovan.wire.api.files import OUTPUT, CopyBody, FilePage, FileView

# Called with the bytes copied so far and the bytes to copy.
Progress = Callable[[int, int], None]


def _ignore(_copied: int, _total: int) -> None:
    """Report no progress."""


def _add(progress: Progress, before: int, total: int, copied: int) -> None:
    progress(before + copied, total)


class AsyncFiles:
    """Files of sessions; paths are below the working directory or below output/."""

    def __init__(self, connection: AsyncConnection, uploads: AsyncUploads) -> None:
        self._connection, self._uploads = connection, uploads

    async def list(self, ref: str, path: str = OUTPUT, *, kernel: int = 0) -> list[FileView]:
        """List the files below a path, by default those that are kept after the end."""
        return [file async for page in self.pages(ref, path, kernel=kernel) for file in page.items]

    async def pages(self, ref: str, path: str = OUTPUT, *, kernel: int = 0) -> AsyncIterator[FilePage]:
        """Yield the files below a path in pages."""
        after: str | None = None
        while True:
            page = await self._connection.send(upload_calls.list_files(ref, kernel, path, after=after))
            yield page
            if page.next is None:
                return
            after = page.next

    async def download(
        self, ref: str, path: str, target: str | Path, *, kernel: int = 0, progress: Progress = _ignore
    ) -> CopyResult:
        """Copy a file or folder out of a session, into a folder or to a new name."""
        files: list[FileView] = []
        last: FilePage | None = None
        async for page in self.pages(ref, path, kernel=kernel):
            files += page.items
            last = page
        if last is None:
            raise InvalidSetting(f"{path} cannot be listed")
        place, total, done = local_target(path, Path(target)), sum(file.size for file in files), 0
        if total > last.bytes_max:
            raise InvalidSetting(f"{path} has {total} bytes, {last.bytes_max} is the limit of a copy")
        if last.is_folder:
            make_folder(place)
        above = len(f"{path.rstrip('/')}/") if path.rstrip("/") else 0
        for file in files:
            goal = local_path(place, file.path[above:]) if last.is_folder else place
            make_folder(goal.parent)
            done += await self._fetch(ref, file, goal, partial(_add, progress, done, total))
        return CopyResult(len(files), done, str(place), last.left_out, tuple(last.left_out_names))

    async def upload(
        self, source: str | Path, ref: str, path: str = "", *, kernel: int = 0, progress: Progress = _ignore
    ) -> CopyResult:
        """Copy a file or folder into a running session, into a folder or to a new name."""
        content = read_tree(Path(source))
        view = await self._uploads.send_read(content, progress=progress)
        body = CopyBody(upload=view.id, path=path)
        while True:
            placed = await self._connection.send(upload_calls.place_upload(ref, kernel, body))
            if placed.done:
                return CopyResult(len(content.files), content.total_bytes, placed.path)

    async def _fetch(self, ref: str, file: FileView, goal: Path, progress: Callable[[int], None]) -> int:
        """Fetch a file; it appears complete or not at all. Returns its size."""
        part = goal.with_name(f".sokovan-{self._connection.environment.new_key()[:16]}")
        offset, mark = 0, ""
        try:
            with part.open("xb") as stream:
                while offset < file.size or not mark:
                    chunk = await self._connection.send(
                        upload_calls.read_file(ref, file.kernel, file.path, offset=offset, mark=mark)
                    )
                    data, mark = base64.b64decode(chunk.data)[: file.size - offset], chunk.mark
                    if not data and offset < file.size:
                        raise InvalidSetting(f"{file.path} became shorter while it was copied", hint="copy it again")
                    stream.write(data)
                    offset += len(data)
                    progress(offset)
                if file.executable:
                    os.fchmod(stream.fileno(), 0o755)
            part.replace(goal)
        except OSError as error:
            raise InvalidSetting(f"cannot write {goal}: {error.strerror or error}") from error
        finally:
            with suppress(FileNotFoundError):
                part.unlink()
        return offset
