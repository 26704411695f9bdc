"""Requests for uploads and for the files of sessions."""

from __future__ import annotations

from sokovan.sdk.core.calls import Call, api_path, query
from sokovan.wire.api.files import BlobView, CopyBody, CopyView, FileChunk, FilePage, UploadView


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


def list_files(ref: str, kernel: int, path: str, *, after: str | None = None) -> Call[FilePage]:
    """Get one page of the files below a path."""
    return Call(
        method="GET", path=_files(ref, kernel), answer=FilePage, query=query({"path": path, "after": after or None})
    )


def read_file(ref: str, kernel: int, path: str, *, offset: int, mark: str) -> Call[FileChunk]:
    """Read a part of a file."""
    return Call(
        method="GET",
        path=f"{_files(ref, kernel)}/content",
        answer=FileChunk,
        query=query({"path": path, "offset": offset, "mark": mark or None}),
    )


def place_upload(ref: str, kernel: int, body: CopyBody) -> Call[CopyView]:
    """Copy an upload into a kernel."""
    return Call(
        method="POST",
        path=_files(ref, kernel),
        answer=CopyView,
        body={"upload": body.upload, "path": body.path},
    )


def _files(ref: str, kernel: int) -> str:
    return api_path("sessions", ref, "kernels", str(kernel), "files")
