"""Where things lie: a folder per kernel, and a stone for each that was forgotten."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sokovan.domain.ids import KernelId

LAUNCH = "launch.json"
WORK = "work"
TEMPORARY = "tmp"
LOCK = "lock"
UNFINISHED = ".new-"
DISCARDED = ".gone-"
PRIVATE = 0o700

_NAME_MAX = 160
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_name(kernel_id: KernelId, attempt: int) -> str:
    """A file name that no other kernel or attempt has."""
    name = quote(kernel_id, safe="")
    if len(name) > _NAME_MAX:
        # No id has a tilde in it, so that a shortened name is nobody's full one.
        name = f"{name[: _NAME_MAX // 2]}~{hashlib.sha256(kernel_id.encode()).hexdigest()[:32]}"
    return f"{name}-{attempt}"


class KernelLayout:
    """The folders below a runtime's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kernels = root / "kernels"
        self.forgotten = root / "forgotten"
        self.images = root / "images"
        self.venvs = root / "venvs"

    def prepare(self) -> None:
        """Make what is missing; raises OSError."""
        self.root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        for folder in (self.kernels, self.forgotten, self.images, self.venvs):
            folder.mkdir(mode=PRIVATE, exist_ok=True)

    def folder(self, kernel_id: KernelId, attempt: int) -> Path:
        """The folder of a kernel, there or not."""
        return self.kernels / folder_name(kernel_id, attempt)

    def names(self) -> list[str]:
        """The kernels' folders, by name; what is half made or half gone is not among them."""
        return sorted(entry.name for entry in os.scandir(self.kernels) if not entry.name.startswith("."))

    def is_forgotten(self, name: str) -> bool:
        """Whether a kernel of this folder name was here once and must not come again."""
        return (self.forgotten / name).exists()

    def lay_stone(self, name: str, now_ms: int) -> None:
        """Remember that it is forgotten; survives a loss of power."""
        path = self.forgotten / name
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.close(handle)
        os.utime(path, ns=(now_ms * 1_000_000, now_ms * 1_000_000))
        sync_folder(self.forgotten)

    def clear_stones(self, older_than_ms: int) -> None:
        """Remove stones of kernels that nobody will ask for again."""
        for entry in os.scandir(self.forgotten):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime_ns < older_than_ms * 1_000_000:
                    (self.forgotten / entry.name).unlink()

    def discard(self, name: str) -> None:
        """Remove a kernel's folder: out of sight in one step, then piece by piece."""
        gone = self.kernels / f"{DISCARDED}{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            (self.kernels / name).rename(gone)
            remove_tree(gone)

    def fresh(self, name: str) -> Path:
        """Where a kernel's folder is made before it appears under its own name."""
        return self.kernels / f"{UNFINISHED}{name}-{secrets.token_hex(8)}"

    def clear_leftovers(self, older_than_ms: int) -> None:
        """Remove what a runtime that was killed was making or removing.

        A folder that is being made has no lock for a moment; what is younger stays.
        """
        for entry in list(os.scandir(self.kernels)):
            if not entry.name.startswith((DISCARDED, UNFINISHED)):
                continue
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime_ns < older_than_ms * 1_000_000:
                    self._clear(entry.name)

    def _clear(self, name: str) -> None:
        if name.startswith(DISCARDED):
            remove_tree(self.kernels / name)
            return
        with locked_if_free(self.kernels / name) as free:
            if free:
                remove_tree(self.kernels / name)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A folder held open, so that what is done inside stays inside; raises OSError."""
    handle = os.open(folder, _FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def open_lock(folder: Path, *, wait: bool) -> int:
    """Hold the lock of a kernel's folder; raises BlockingIOError unless it may `wait`.

    Raises FileNotFoundError if the folder is not there, or no longer when the wait is over.
    """
    with opened(folder) as inside:
        handle = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=inside)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        _require_same(handle, folder / LOCK)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _require_same(handle: int, path: Path) -> None:
    if not os.path.samestat(os.fstat(handle), path.lstat()):
        raise FileNotFoundError(errno.ENOENT, "another took its place", str(path))


@contextmanager
def locked_if_free(folder: Path) -> Iterator[bool]:
    """Hold the lock for a moment; False if a start is under way or there is no folder."""
    try:
        handle = open_lock(folder, wait=False)
    except (BlockingIOError, FileNotFoundError, NotADirectoryError):
        yield False
        return
    try:
        yield True
    finally:
        os.close(handle)


def remove_tree(path: Path) -> None:
    """Remove a folder and all below, following no link; what is missing is no error."""
    try:
        parent = os.open(path.parent, _FOLDER)
    except FileNotFoundError:
        return
    try:
        _remove(parent, path.name)
    finally:
        os.close(parent)


def _remove(parent: int, name: str) -> None:
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            return
        folder = _opened_for_removal(parent, name)
    except FileNotFoundError:
        return
    try:
        for below in os.listdir(folder):  # noqa: PTH208  # an open folder has no path to ask
            _remove(folder, below)
    finally:
        os.close(folder)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent)


def _opened_for_removal(parent: int, name: str) -> int:
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
        os.fchmod(folder, PRIVATE)
    except PermissionError:
        # Its owner took the right to read it. The bare handle leads to it, and to no link.
        bare = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            Path(f"/proc/self/fd/{bare}").chmod(PRIVATE)
        finally:
            os.close(bare)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    return folder


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    with opened(folder) as handle:
        os.fsync(handle)
