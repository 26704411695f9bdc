"""Requests for uploads."""

from __future__ import annotations

from sokovan.sdk.core.calls import Call, api_path
from sokovan.wire.api.uploads import BlobView, UploadView


def put_blob(digest: str, content: bytes, *, size: int, offset: int) -> Call[BlobView]:
    """Send a part of a blob."""
    return Call(
        method="PUT",
        path=api_path("uploads", "blobs", digest),
        answer=BlobView,
        query={"size": str(size), "offset": str(offset)},
        content=content,
    )


def complete(digest: str) -> Call[UploadView]:
    """Complete the upload whose manifest is this blob, or list what is missing."""
    return Call(method="PUT", path=api_path("uploads", digest), answer=UploadView)
