"""Opens paths below a folder: no link leads out of it, and no device is opened."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sokovan.adapters.process.shim.machine_folders import open_folder
from sokovan.domain.errors import quoted
from sokovan.domain.owners.uploads import DEPTH_MAX, PATH_BYTES_MAX
from sokovan.ports.kernel_files import FileMissing, FileRefused

LINKS_MAX = 40
_ANY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Reopened by its descriptor, so that it is the object that was checked.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})

# A folder by device and number, which a rename does not change.
Identity = tuple[int, int]


def identity_of(about: os.stat_result) -> Identity:
    """The identity of a folder, whatever its path."""
    return about.st_dev, about.st_ino


def identities(folders: Collection[Path]) -> frozenset[Identity]:
    """Those of the folders that exist."""
    found = set()
    for folder in folders:
        try:
            found.add(identity_of(folder.stat()))
        except OSError:
            continue
    return frozenset(found)


def checked_parts(path: str) -> tuple[str, ...]:
    """The parts of a path without `.`; raises FileRefused for one that could leave."""
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise FileRefused(f"{quoted(path)} has .. in it", hint="name the file by its path without ..")
    if not path.isprintable() or len(path.encode(errors="replace")) > PATH_BYTES_MAX or len(parts) > DEPTH_MAX:
        raise FileRefused(f"{quoted(path)} is too long, or has unprintable characters")
    return parts


@contextmanager
def opened_beneath(root: Path, parts: Sequence[str], *, hidden: Collection[Identity] = ()) -> Iterator[int]:
    """A regular file or folder below `root`, open for reading.

    Links are followed as long as they stay inside. Each part is opened relative to the
    folder before it, so that nothing that changes meanwhile leads out. Raises FileMissing
    and FileRefused.
    """
    walk = _Walk(root, hidden)
    try:
        walk.follow(parts)
        handle = os.open(f"/proc/self/fd/{walk.last}", _READ)
    except OSError as error:
        raise _failure("/".join(parts), error) from error
    finally:
        walk.close()
    try:
        yield handle
    finally:
        os.close(handle)


class _Walk:
    """The folders from the root to where the walk is, each with its descriptor."""

    def __init__(self, root: Path, hidden: Collection[Identity]) -> None:
        self._hidden, self._links = hidden, 0
        try:
            self._handles = [open_folder(str(root))]
        except OSError:
            raise FileMissing("the folder does not exist any more, or was replaced by a link") from None

    @property
    def last(self) -> int:
        """The descriptor of the last part."""
        return self._handles[-1]

    def follow(self, parts: Sequence[str]) -> None:
        """Go along the parts; those of a link take its place."""
        left = list(reversed(parts))
        while left:
            part = left.pop()
            if part == "..":
                self._up("/".join(parts))
            elif part not in {"", "."}:
                left += reversed(self._enter(part, "/".join(parts)))

    def close(self) -> None:
        """Close every descriptor."""
        for handle in self._handles:
            os.close(handle)

    def _up(self, path: str) -> None:
        if len(self._handles) == 1:
            raise _leaving(path)
        os.close(self._handles.pop())

    def _enter(self, part: str, path: str) -> Sequence[str]:
        """Enter a part; returns the parts to follow first if it is a link."""
        handle = os.open(part, _ANY, dir_fd=self.last)
        self._handles.append(handle)
        about = os.fstat(handle)
        if stat.S_ISLNK(about.st_mode):
            target = os.readlink("", dir_fd=handle)
            os.close(self._handles.pop())
            self._links += 1
            if target.startswith("/") or self._links > LINKS_MAX:
                raise _leaving(path)
            return target.split("/")
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            raise FileRefused(f"{quoted(path)} is neither a regular file nor a folder")
        if identity_of(about) in self._hidden:
            raise FileRefused(f"{quoted(path)} is in a folder that is hidden from kernels")
        return ()


def _leaving(path: str) -> FileRefused:
    return FileRefused(f"{quoted(path)} is or contains a link that leaves its folder")


def _failure(path: str, error: OSError) -> FileMissing | FileRefused:
    if error.errno in _GONE:
        return FileMissing(f"{quoted(path)} does not exist")
    return FileRefused(f"{quoted(path)} cannot be read: {error.strerror}")
