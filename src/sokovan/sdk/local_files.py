"""Local files that are copied out of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sokovan.sdk.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The outcome of a copy; `left_out` entries are no regular files, some are named."""

    files: int
    size: int
    target: str
    left_out: int = 0
    left_out_names: tuple[str, ...] = ()


def local_target(path: str, target: Path) -> Path:
    """The target of a path of a session: in a folder, or under a new name."""
    name = path.rstrip("/").rpartition("/")[2]
    if target.is_dir() and name not in {"", ".", ".."}:
        return target / name
    return target


def local_path(root: Path, path: str) -> Path:
    """The local path of a file below `root`.

    The server names the files, so its paths are not trusted. Raises InvalidSetting.
    """
    parts = path.split("/")
    if not path.isprintable() or any(part in {"", ".", ".."} for part in parts):
        raise InvalidSetting(f"the server names a file {path!r}, which is not below the folder")
    return root.joinpath(*parts)


def make_folder(folder: Path) -> None:
    """Create a folder, unless it exists. Raises InvalidSetting."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSetting(f"cannot create {folder}: {error.strerror}") from error
