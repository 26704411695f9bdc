"""The KernelFiles port on the folders of the process runtime."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Collection
from pathlib import Path

from sokovan.adapters.process.files.file_access import identities, opened_beneath
from sokovan.adapters.process.files.file_lists import FileTree, file_info
from sokovan.adapters.process.files.kernel_folders import found_path
from sokovan.adapters.process.files.output_collection import OutputCollector
from sokovan.adapters.process.files.upload_placement import place_tree
from sokovan.adapters.process.launch.output_folders import OutputFolders
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.adapters.process.layout import KernelLayout, folder_name
from sokovan.adapters.process.shim.thread_account import rights_of
from sokovan.domain.errors import quoted
from sokovan.ports.kernel_files import (
    FileInfo,
    FileListing,
    FilePart,
    FileRefused,
    KernelPath,
    OutputState,
    UploadPlacement,
)

PAGE_FILES_MAX = 1_000
PAGE_BYTES_MAX = 256 << 10
PART_BYTES_MAX = 512 << 10
# A request is answered after this at the latest; copying goes on.
PLACING_S = 5.0
PLACINGS_MAX = 8


class ProcessFiles:
    """Files of kernels below `root`, which is that of the runtime.

    `hidden` are folders that kernels cannot see; `uploads` fetches what is copied in.
    """

    def __init__(
        self, root: Path, *, uploads: UploadFolders, outputs: OutputCollector, hidden: Collection[Path] = ()
    ) -> None:
        self._layout = KernelLayout(root.resolve())  # without links, as the paths in the records of kernels
        self._uploads, self._collector = uploads, outputs
        self._outputs, self._hidden = OutputFolders(self._layout), tuple(hidden)
        self._placings: dict[tuple[KernelPath, str], asyncio.Task[str]] = {}

    async def list(self, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        """See the port."""
        return await asyncio.to_thread(self._list, place, after, files_max)

    async def read(self, place: KernelPath, *, offset: int, limit: int, mark: str) -> FilePart:
        """See the port."""
        return await asyncio.to_thread(self._read, place, offset, min(limit, PART_BYTES_MAX), mark)

    async def put(self, place: KernelPath, upload: str) -> UploadPlacement:
        """See the port. The outcome of a copy is kept until it was reported."""
        key = (place, upload)
        task = self._placings.get(key)
        if task is None:
            await asyncio.to_thread(found_path, self._layout, place)  # refuses before anything is fetched
            if len(self._placings) >= PLACINGS_MAX:
                self._drop_finished()
            task = self._placings[key] = asyncio.ensure_future(self._placed(place, upload))
        done, _ = await asyncio.wait({task}, timeout=PLACING_S)
        if not done:
            return UploadPlacement(done=False, path=place.path)
        self._placings.pop(key, None)
        return UploadPlacement(done=True, path=task.result())

    def _drop_finished(self) -> None:
        for key in [key for key, task in self._placings.items() if task.done()]:
            del self._placings[key]
        if len(self._placings) >= PLACINGS_MAX:
            raise FileRefused(f"{PLACINGS_MAX} copies into sessions of this agent are under way", hint="retry later")

    async def _placed(self, place: KernelPath, upload: str) -> str:
        async with self._uploads.fetched(upload) as folder:
            target = await asyncio.to_thread(found_path, self._layout, place)
            into = place.path.endswith("/")
            return await asyncio.to_thread(place_tree, folder, target, hidden=identities(self._hidden), into=into)

    def _list(self, place: KernelPath, after: str, files_max: int) -> FileListing:
        found = found_path(self._layout, place)
        hidden = identities(self._hidden)
        output = self._output_state(place) if found.is_output else None
        with (
            rights_of(found.folder.account),
            opened_beneath(found.folder.place, found.parts, hidden=hidden) as handle,
        ):
            about = os.fstat(handle)
            if not stat.S_ISDIR(about.st_mode):
                return FileListing(is_folder=False, files=(file_info("", about),), output=output)
            tree = FileTree(files_max, hidden)
            tree.read(handle)
        page, more = _page([one for one in tree.files if one.path > after])
        return FileListing(
            is_folder=True,
            files=page,
            more=more,
            left_out=tree.left_out,
            left_out_names=tuple(tree.left_out_names),
            output=output,
        )

    def _read(self, place: KernelPath, offset: int, limit: int, mark: str) -> FilePart:
        found = found_path(self._layout, place)
        hidden = identities(self._hidden)
        with (
            rights_of(found.folder.account),
            opened_beneath(found.folder.place, found.parts, hidden=hidden) as handle,
        ):
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise FileRefused(f"{quoted(place.path)} is a folder")
            here = f"{about.st_dev:x}-{about.st_ino:x}"
            if mark not in {"", here}:
                raise FileRefused(f"{quoted(place.path)} was replaced while it was copied", hint="copy it again")
            return FilePart(os.pread(handle, limit, offset), about.st_size, here)

    def _output_state(self, place: KernelPath) -> OutputState | None:
        output = self._outputs.one(folder_name(place.kernel_id, place.attempt))
        if output is None:
            return None
        return OutputState(
            session_bytes_max=output.terms.session_bytes_max,
            owner_bytes=self._collector.owner_bytes(output.terms.owner),
            owner_bytes_max=output.terms.owner_bytes_max,
            kept_until_ms=output.kept_until_ms,
            dropped_files=output.dropped_files,
            dropped_bytes=output.dropped_bytes,
        )


def _page(files: list[FileInfo]) -> tuple[tuple[FileInfo, ...], bool]:
    """The first files that fit into one answer, and whether more follow."""
    page: list[FileInfo] = []
    size = 0
    for one in files[:PAGE_FILES_MAX]:
        size += len(one.path.encode()) + 40
        if size > PAGE_BYTES_MAX and page:
            break
        page.append(one)
    return tuple(page), len(page) < len(files)
