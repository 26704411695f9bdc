"""Files that are replaced whole: a reader sees the old one or the new one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

PRIVATE = 0o600
UNFINISHED = ".new"


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step that survives a crash. Raises OSError.

    The new file keeps the mode and, where permitted, the owner of the old one; one
    that was not there is private. After an error the old file is as it was.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=UNFINISHED, dir=target.parent)
    try:
        with open(handle, "wb") as stream:  # noqa: PTH123  # it is open already; only its number is known
            _adopt(target, handle)
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        os.replace(name, target)  # noqa: PTH105  # the same as Path.replace, on the name that mkstemp gave
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108  # the same as Path.unlink, on the name that mkstemp gave
        raise
    _sync_folder(target.parent)


def remove_unfinished(path: Path) -> None:
    """Remove what writers that were killed left behind; the caller holds the lock."""
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
    # Without this the rename itself may be lost with the power.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
