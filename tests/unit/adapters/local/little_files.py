"""Synchronous file operations, because async tests must not block on the disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def put(path: Path, text: str) -> None:
    """Write a file in place, as an editor would, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def put_within_the_same_tick(path: Path, text: str) -> None:
    """Write a file in place without a change of its time."""
    about = path.stat()
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def text_of(path: Path) -> str:
    """The text of a file; empty if it is missing."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def mode_of(path: Path) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def remove(path: Path) -> None:
    """Remove a file."""
    path.unlink()


def make_folder(path: Path) -> None:
    """Make a folder."""
    path.mkdir()
