"""JSON types of uploads."""

from __future__ import annotations

from dataclasses import dataclass

# The most bytes of a blob in one request.
PART_BYTES_MAX = 512 << 10


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
