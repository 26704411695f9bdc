"""Requests for the files of sessions, and the local paths that they are copied to."""

from __future__ import annotations

from pathlib import Path

from sokovan.sdk.core.calls import Call, api_path, query
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.files import FileChunk, FilePage, PlacementBody, PlacementView


def listing(ref: str, kernel: int, path: str, *, after: str | None = None) -> Call[FilePage]:
    """Get one page of the files below a path."""
    return Call(
        method="GET", path=_path(ref, kernel), answer=FilePage, query=query({"path": path, "after": after or None})
    )


def read(ref: str, kernel: int, path: str, *, offset: int, mark: str) -> Call[FileChunk]:
    """Read a part of a file."""
    return Call(
        method="GET",
        path=f"{_path(ref, kernel)}/content",
        answer=FileChunk,
        query=query({"path": path, "offset": offset, "mark": mark or None}),
    )


def place(ref: str, kernel: int, body: PlacementBody) -> Call[PlacementView]:
    """Copy an upload into a kernel."""
    return Call(
        method="POST",
        path=_path(ref, kernel),
        answer=PlacementView,
        body={"upload": body.upload, "path": body.path},
    )


def _path(ref: str, kernel: int) -> str:
    return api_path("sessions", ref, "kernels", str(kernel), "files")


def local_target(path: str, target: Path) -> Path:
    """Where a path of a session is copied to: into a folder, or under a new name."""
    name = path.rstrip("/").rpartition("/")[2]
    if target.is_dir() and name not in {"", ".", ".."}:
        return target / name
    return target


def local_path(root: Path, path: str) -> Path:
    """The local path of a file below `root`; raises InvalidSetting if it would leave it.

    The server names the files, so its paths are not trusted.
    """
    parts = path.split("/")
    if not path.isprintable() or any(part in {"", ".", ".."} for part in parts):
        raise InvalidSetting(f"the server names a file {path!r}, which is not below the folder")
    return root.joinpath(*parts)
