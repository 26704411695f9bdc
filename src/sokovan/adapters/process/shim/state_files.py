"""Small records on disk: replaced atomically, also when the disk is full."""

from __future__ import annotations

import contextlib
import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PRIVATE = 0o600
# A record fills its block from the start, so that overwriting it needs no new space.
PADDED_BYTES = 1024
READ_MAX = 1 << 20


def write_record(folder: int, name: str, content: dict[str, Any], *, lasting: bool = True) -> None:
    """Replace record `name` in the open folder; raises OSError.

    With `lasting` it survives a power failure. Without space for a second copy the old one
    is overwritten in place, which is atomic for one sector.
    """
    text = json.dumps(content).encode().ljust(PADDED_BYTES)
    try:
        _replace(folder, name, text, lasting=lasting)
    except OSError as error:
        try:
            _overwrite(folder, name, text)
        except FileNotFoundError:
            raise error from None


def _replace(folder: int, name: str, text: bytes, *, lasting: bool) -> None:
    fresh = f".{name}.new"
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE, dir_fd=folder)
        try:
            _write_all(handle, text)
            if lasting:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=folder)
        raise
    if lasting:
        os.fsync(folder)


def _overwrite(folder: int, name: str, text: bytes) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        _write_all(handle, text)
        os.ftruncate(handle, len(text))
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, text: bytes) -> None:
    while text:
        text = text[os.write(handle, text) :]


def read_record(folder: int, name: str, *, bytes_max: int = READ_MAX) -> dict[str, Any] | None:
    """Record `name` of the open folder; None if it is missing or incomplete."""
    try:
        # NONBLOCK: opening a pipe that has replaced the file would block.
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        content = json.loads(os.read(handle, bytes_max))
    except (OSError, ValueError):
        return None
    finally:
        os.close(handle)
    return content if isinstance(content, dict) else None
