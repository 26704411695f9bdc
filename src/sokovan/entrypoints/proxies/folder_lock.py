"""The locks of a proxy's folders, seen from outside.

By itself, so that the server loads nothing of the proxy.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCK_FILE = "lock"


def holder_of(root: Path) -> int | None:
    """The process that holds the lock of a folder; None if no process does."""
    try:
        handle = os.open(root / LOCK_FILE, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 20, 0).strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(handle)
    return None


def holders_of(root: Path) -> list[int]:
    """The processes that hold a lock of a folder or of one in it, outer ones first."""
    locks = sorted(root.rglob(LOCK_FILE), key=lambda path: (len(path.parts), path))
    found = (holder_of(path.parent) for path in locks)
    return list(dict.fromkeys(process for process in found if process is not None))
