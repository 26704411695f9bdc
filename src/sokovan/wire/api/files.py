"""JSON types of uploads, and of the files of sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

from sokovan.wire.api.bodies import StrictBody

# The most bytes of a file in one response.
READ_BYTES_MAX = 512 << 10
# The most bytes of a blob in one request.
PART_BYTES_MAX = 512 << 10
# Paths with this first part are below the folder whose files are kept after the end.
OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """A regular file of a kernel; `kept_until` is missing while the kernel runs."""

    kernel: int
    path: str
    size: int
    modified_at: str
    executable: bool = False
    kept_until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """The output of a kernel, and what its owner has on the agent, in bytes.

    `dropped_files` exceeded a limit and were not kept.
    """

    session_bytes_max: int
    owner_bytes: int
    owner_bytes_max: int
    kept_until: str | None = None
    dropped_files: int = 0
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage:
    """A page of the files below a path, in the order of their paths.

    `next` is the value of `after` for the next page. `left_out` counts links, devices and
    names that cannot be copied; some are named.
    """

    items: list[FileView]
    is_folder: bool
    bytes_max: int
    next: str | None = None
    left_out: int = 0
    left_out_names: list[str] = field(default_factory=list)
    output: OutputView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChunk:
    """A part of a file in base64; `mark` identifies the file to the next request."""

    offset: int
    data: str
    size: int
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBody(StrictBody):
    """The upload to copy into a kernel, and the path to copy it to."""

    upload: str
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyView:
    """Whether the upload was copied; until then the request is repeated."""

    done: bool
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobView:
    """A blob of an upload: `received` is how many of its bytes the server has."""

    digest: str
    size: int
    received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadView:
    """An upload; it is complete, and sessions may use it, if no blob is missing."""

    id: str
    files: int
    bytes: int
    missing: list[str]
