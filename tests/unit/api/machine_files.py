"""The files of kernels on a folder of this machine, as every agent's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import TypeVar

from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.adapters.process.files.output_collection import OutputCollector
from sokovan.adapters.process.files.process_files import ProcessFiles
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.domain.ids import AgentId
from sokovan.domain.owners.uploads import UploadFile
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.kernel_files import FileListing, FilePart, KernelPath, UploadPlacement
from sokovan.ports.runtime import RuntimeFailure

T = TypeVar("T")


class StoredUploads:
    """Uploads, straight from the server's store."""

    def __init__(self, store: LocalUploads) -> None:
        self._store = store

    async def parts(self, reference: str) -> AsyncGenerator[UploadFile | bytes, None]:
        for file in (await self._store.manifest(reference)).files:
            yield file
            if file.size:
                yield await self._store.read(reference, file.digest, offset=0, limit=file.size)


class MachineFiles:
    """The AgentFiles port without a link."""

    def __init__(self, root: Path, uploads: LocalUploads) -> None:
        self.root = root
        folders = UploadFolders(root, StoredUploads(uploads))
        self._files = ProcessFiles(root, uploads=folders, outputs=OutputCollector(root, lambda _line: None))

    async def list(self, agent_id: AgentId, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        return await _refusing(agent_id, self._files.list(place, after=after, files_max=files_max))

    async def read(self, agent_id: AgentId, place: KernelPath, *, offset: int, limit: int, mark: str) -> FilePart:
        return await _refusing(agent_id, self._files.read(place, offset=offset, limit=limit, mark=mark))

    async def put(self, agent_id: AgentId, place: KernelPath, upload: str) -> UploadPlacement:
        return await _refusing(agent_id, self._files.put(place, upload))


async def _refusing(agent_id: AgentId, answer: Awaitable[T]) -> T:
    try:
        return await answer
    except RuntimeFailure as failure:
        problem = f"{failure.message} [{failure.code}]"
        raise AgentRefused(agent_id=agent_id, problem=problem, reason=failure.code) from failure
