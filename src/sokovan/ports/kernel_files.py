"""Files of kernels: read, listed and written by the names that the kernel sees.

A path is relative to the working directory of the kernel, absolute inside one of its
folders, or begins with `output/`: then it is below the folder whose files outlive it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.runtime import RuntimeFailure

OUTPUT = "output"


class FileRefused(RuntimeFailure):
    """A path of a kernel that cannot be copied from or to."""

    code = "file-refused"
    hint = "name a regular file or a folder in the session's working directory, or below output/"


class FileMissing(RuntimeFailure):
    """A path of a kernel that does not exist."""

    code = "file-not-found"
    hint = "list the files with `sokovan session files SESSION`; output is kept for a limited time"


@dataclass(frozen=True, slots=True)
class KernelPath:
    """A path of one attempt of a kernel."""

    kernel_id: KernelId
    attempt: int
    path: str


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One regular file, by its path below the listed one; empty for that itself."""

    path: str
    size: int
    modified_ms: int
    executable: bool = False


@dataclass(frozen=True, slots=True)
class OutputState:
    """The output of a kernel, and what its owner has on the agent, in bytes.

    `kept_until_ms` is None while the kernel runs; `dropped` files exceeded a limit.
    """

    session_bytes_max: int
    owner_bytes: int
    owner_bytes_max: int
    kept_until_ms: int | None = None
    dropped_files: int = 0
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FileListing:
    """A page of the files below a path, by path; `more` follow after the last one.

    `left_out` counts links, devices and names that cannot be copied; some are named.
    """

    is_folder: bool
    files: tuple[FileInfo, ...] = ()
    more: bool = False
    left_out: int = 0
    left_out_names: tuple[str, ...] = ()
    output: OutputState | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file, the size of the whole, and what identifies it."""

    data: bytes
    size: int
    mark: str


@dataclass(frozen=True, slots=True)
class UploadPlacement:
    """Whether an upload was copied, and to which path."""

    done: bool
    path: str


class KernelFiles(Protocol):
    """Files on an agent's machine. Nothing outside the kernel's folders is touched.

    All raise FileRefused, FileMissing. A link is followed if it stays inside its folder.
    """

    async def list(self, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        """The regular files below a path. Refuses more than `files_max`."""

    async def read(self, place: KernelPath, *, offset: int, limit: int, mark: str) -> FilePart:
        """A part of a file. Refuses a file that has another mark, unless that is empty."""

    async def put(self, place: KernelPath, upload: str) -> UploadPlacement:
        """Copy the files of an upload; returns early if that takes long.

        Idempotent: repeated until it is done. All files of an upload have one folder in
        common, or it is one file; that gets the name of the path, unless the path is a
        folder, which it is then copied into. Raises RuntimeFailure.
        """


class AgentFiles(Protocol):
    """The same on an agent; raises AgentUnreachable, and AgentRefused with the code."""

    async def list(self, agent_id: AgentId, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        """See KernelFiles."""

    async def read(self, agent_id: AgentId, place: KernelPath, *, offset: int, limit: int, mark: str) -> FilePart:
        """See KernelFiles."""

    async def put(self, agent_id: AgentId, place: KernelPath, upload: str) -> UploadPlacement:
        """See KernelFiles."""
