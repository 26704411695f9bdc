"""Atomic file replacement: a reader sees the old file or the new one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

PRIVATE = 0o600
UNFINISHED = ".new"


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably. Raises OSError.

    The new file keeps the mode and, where permitted, the owner of the old one; a file
    that did not exist is private. After an error the old file is unchanged.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=UNFINISHED, dir=target.parent)
    try:
        with open(handle, "wb") as stream:  # noqa: PTH123  # opens a file descriptor
            _adopt(target, handle)
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        os.replace(name, target)  # noqa: PTH105  # mkstemp returns a string
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108  # mkstemp returns a string
        raise
    _sync_folder(target.parent)


def remove_unfinished(path: Path) -> None:
    """Remove temporary files of killed writers; the caller holds the lock."""
    target = Path(os.path.realpath(path))
    for leftover in target.parent.glob(f".{target.name}.*{UNFINISHED}"):
        leftover.unlink(missing_ok=True)


def _adopt(target: Path, handle: int) -> None:
    try:
        old = target.stat()
    except FileNotFoundError:
        os.fchmod(handle, PRIVATE)
        return
    # Owner first: a change of owner may clear bits of the mode.
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, old.st_mode & 0o7777)


def _sync_folder(folder: Path) -> None:
    # Makes the rename durable.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
