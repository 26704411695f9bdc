"""Kernels on disk as the runtime leaves them, and uploads to copy into them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from sokovan.adapters.process.files.output_collection import OutputCollector
from sokovan.adapters.process.files.process_files import ProcessFiles
from sokovan.adapters.process.launch.output_folders import OutputFolders
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.adapters.process.layout import LAUNCH, WORK, KernelLayout, folder_name, opened
from sokovan.adapters.process.shim.main import STATE
from sokovan.adapters.process.shim.state_files import write_record
from sokovan.domain.ids import KernelId
from sokovan.domain.owners.uploads import UploadFile
from sokovan.wire.frames import CreateKernel, OutputTerms

TERMS = OutputTerms(owner="kim", retention_s=100, session_bytes_max=1000, owner_bytes_max=2000)


class Uploads:
    """Uploads by their reference, sent as they are."""

    def __init__(self) -> None:
        self.known: dict[str, Mapping[str, bytes]] = {}

    def add(self, files: Mapping[str, bytes]) -> str:
        """Keep an upload; its reference."""
        self.known[str(len(self.known))] = files
        return str(len(self.known) - 1)

    async def parts(self, reference: str) -> AsyncGenerator[UploadFile | bytes, None]:
        """Each file, followed by its content."""
        for path, content in self.known[reference].items():
            yield UploadFile(path, hashlib.sha256(content).hexdigest(), len(content))
            if content:
                yield content


class Machine:
    """A runtime's root, with kernels that are only files."""

    def __init__(self, root: Path, *, hidden: tuple[Path, ...] = (), free_bytes: int = 1 << 40) -> None:
        self.layout = KernelLayout(root)
        self.layout.prepare()
        self.uploads, self.told, self.free_bytes = Uploads(), list[str](), free_bytes
        self.collector = OutputCollector(root, self.told.append, free_bytes=lambda _folder: self.free_bytes)
        self.files = ProcessFiles(
            root, uploads=UploadFolders(root, self.uploads), outputs=self.collector, hidden=(root, *hidden)
        )
        self.outputs = OutputFolders(self.layout)

    def kernel(
        self,
        kernel_id: str = "k1",
        *,
        folder: Path | None = None,
        session: str = "s1",
        terms: OutputTerms | None = TERMS,
        mounts: tuple[tuple[str, str, bool], ...] = (),
    ) -> Path:
        """A running kernel; its work folder."""
        name = folder_name(KernelId(kernel_id), 1)
        work = self.layout.kernels / name / WORK
        work.mkdir(parents=True)
        with opened(work.parent) as handle:
            record = {"kernel_id": kernel_id, "folder": str(folder or work), "mounts": [list(one) for one in mounts]}
            write_record(handle, LAUNCH, record)
            write_record(handle, STATE, {"started_ms": 1})
        launch = CreateKernel(kernel_id, 1, session, "host", ("true",), output=terms)
        self.outputs.prepare(launch, name)
        return work

    def output(self, kernel_id: str = "k1") -> Path:
        """The output folder of a kernel."""
        return self.layout.output_folder(folder_name(KernelId(kernel_id), 1))

    def end(self, kernel_id: str = "k1", *, ended_ms: int) -> None:
        """The kernel has ended."""
        with opened(self.layout.kernels / folder_name(KernelId(kernel_id), 1)) as handle:
            write_record(handle, STATE, {"started_ms": 1, "ended_ms": ended_ms})

    def wrote(self, kernel_id: str, files: Mapping[str, int], *, at_s: int = 1) -> None:
        """A kernel has written files of these sizes to its output, one second after the other."""
        for index, (path, size) in enumerate(files.items()):
            place = self.output(kernel_id) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"x" * size)
            os.utime(place, (at_s + index, at_s + index))
