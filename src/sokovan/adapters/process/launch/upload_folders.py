"""Uploads on an agent's machine: one folder per session, shared by its kernels."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import BinaryIO

from sokovan.adapters.process.launch.work_files import opened_below, parts_below
from sokovan.adapters.process.layout import PRIVATE, UNFINISHED, KernelLayout, remove_tree
from sokovan.domain.owners.uploads import UploadFile
from sokovan.ports.runtime import RuntimeFailure
from sokovan.ports.uploads import UploadSource

# A folder without a kernel is kept this long: its kernels may not have been created yet.
UNUSED_AGE_MS = 3600 * 1000


class UploadFolders:
    """Fetches the upload of a session once, for all its kernels on this machine.

    `root` is that of the runtime.
    """

    def __init__(self, root: Path, source: UploadSource | None = None) -> None:
        self._layout, self._source = KernelLayout(root.absolute()), source
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def prepare(self, session_id: str, reference: str) -> None:
        """Fetch an upload into the folder of a session, unless it is there.

        Raises RuntimeFailure. The folder appears complete or not at all.
        """
        async with self._locks[session_id]:
            folder = self._layout.upload_folder(session_id)
            if await asyncio.to_thread(folder.is_dir):
                return
            try:
                async with self.fetched(reference) as fresh:
                    await asyncio.to_thread(fresh.rename, folder)
            except OSError as error:
                raise RuntimeFailure(f"the upload cannot be unpacked: {error}") from error
            finally:
                self._locks.pop(session_id, None)

    @contextlib.asynccontextmanager
    async def fetched(self, reference: str) -> AsyncIterator[Path]:
        """A temporary folder with the files of an upload. Raises RuntimeFailure."""
        if self._source is None:
            raise RuntimeFailure("this agent cannot fetch uploads", hint="run the session on another agent")
        fresh = self._layout.uploads / f"{UNFINISHED}{secrets.token_hex(8)}"
        try:
            try:
                await asyncio.to_thread(fresh.mkdir, mode=PRIVATE)
                await self._fetch(self._source, reference, fresh)
            except OSError as error:
                raise RuntimeFailure(f"the upload cannot be unpacked: {error}") from error
            yield fresh
        finally:
            await asyncio.to_thread(remove_tree, fresh)

    async def _fetch(self, source: UploadSource, reference: str, folder: Path) -> None:
        unpacking = _Unpacking(folder)
        try:
            async with contextlib.aclosing(source.parts(reference)) as parts:
                async for part in parts:
                    if isinstance(part, UploadFile):
                        await asyncio.to_thread(unpacking.begin, part)
                    else:
                        await asyncio.to_thread(unpacking.write, part)
            await asyncio.to_thread(unpacking.finish)
        finally:
            unpacking.close()

    def collect(self, sessions: Collection[str], now_ms: int) -> None:
        """Remove the folders of sessions without a kernel here, except recent ones."""
        kept = {self._layout.upload_folder(session).name for session in sessions}
        for entry in os.scandir(self._layout.uploads):
            age_ms = now_ms - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
            if entry.name not in kept and age_ms > UNUSED_AGE_MS:
                remove_tree(Path(entry.path))


class _Unpacking:
    """Writes files below a folder, following no link, and checks their content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: UploadFile | None = None
        self._stream: BinaryIO | None = None
        self._digest, self._size = hashlib.sha256(), 0

    def begin(self, file: UploadFile) -> None:
        """Create the next file, after the last one was checked."""
        self.finish()
        parts = parts_below(file.path, what="file of the upload")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with opened_below(self._folder, parts[:-1]) as parent:
            handle = os.open(parts[-1], flags, 0o755 if file.executable else 0o644, dir_fd=parent)
        self._file, self._stream = file, open(handle, "wb")  # noqa: PTH123, SIM115  # a descriptor; closed by finish
        self._digest, self._size = hashlib.sha256(), 0

    def write(self, content: bytes) -> None:
        """Append to the current file."""
        self._size += len(content)
        if self._file is None or self._stream is None or self._size > self._file.size:
            raise RuntimeFailure("the upload has more content than its manifest lists")
        self._digest.update(content)
        self._stream.write(content)

    def finish(self) -> None:
        """Close the current file and check its content."""
        self.close()
        if self._file is not None and (self._size, self._digest.hexdigest()) != (self._file.size, self._file.digest):
            raise RuntimeFailure(f"file {self._file.path!r} of the upload arrived with another content")
        self._file = None

    def close(self) -> None:
        """Close the current file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
