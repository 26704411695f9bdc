"""On-disk layout: a folder per kernel, and a tombstone per forgotten attempt."""

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
UPLOADS = "uploads"
OUTPUTS = "outputs"
FILES = "files"
LOCK = "lock"
UNFINISHED = ".new-"
DISCARDED = ".gone-"
PRIVATE = 0o700

_NAME_MAX = 160
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_name(kernel_id: KernelId, attempt: int) -> str:
    """The unique folder name of a kernel's attempt."""
    name = quote(kernel_id, safe="")
    if len(name) > _NAME_MAX:
        # Ids contain no tilde, so that a shortened name equals no full one.
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
        self.uploads = root / UPLOADS
        self.outputs = root / OUTPUTS

    def prepare(self) -> None:
        """Create missing folders; raises OSError."""
        self.root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        for folder in (self.kernels, self.forgotten, self.images, self.venvs, self.uploads, self.outputs):
            folder.mkdir(mode=PRIVATE, exist_ok=True)

    def folder(self, kernel_id: KernelId, attempt: int) -> Path:
        """The folder of a kernel, which may not exist."""
        return self.kernels / folder_name(kernel_id, attempt)

    def upload_folder(self, session_id: str) -> Path:
        """The folder of a session's upload, which may not exist."""
        return self.uploads / quote(session_id, safe="")

    def output_folder(self, name: str) -> Path:
        """The folder whose files outlive the kernel of this folder name."""
        return self.outputs / name / FILES

    def note_end(self, name: str, ended_ms: int) -> None:
        """Keep the end of a kernel as the time of its output, beyond its own folder."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.outputs / name, ns=(ended_ms * 1_000_000, ended_ms * 1_000_000))

    def names(self) -> list[str]:
        """The folder names of kernels; unfinished and discarded folders are excluded."""
        return sorted(entry.name for entry in os.scandir(self.kernels) if not entry.name.startswith("."))

    def is_forgotten(self, name: str) -> bool:
        """Whether a kernel of this folder name has a tombstone."""
        return (self.forgotten / name).exists()

    def add_tombstone(self, name: str, now_ms: int) -> None:
        """Write a tombstone; it survives a power failure."""
        path = self.forgotten / name
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.close(handle)
        os.utime(path, ns=(now_ms * 1_000_000, now_ms * 1_000_000))
        sync_folder(self.forgotten)

    def remove_tombstones(self, older_than_ms: int) -> None:
        """Remove tombstones of attempts that are not requested again."""
        for entry in os.scandir(self.forgotten):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime_ns < older_than_ms * 1_000_000:
                    (self.forgotten / entry.name).unlink()

    def discard(self, name: str) -> None:
        """Remove a kernel's folder: renamed first, then deleted."""
        gone = self.kernels / f"{DISCARDED}{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            (self.kernels / name).rename(gone)
            remove_tree(gone)

    def fresh(self, name: str) -> Path:
        """A temporary folder in which a kernel's folder is prepared."""
        return self.kernels / f"{UNFINISHED}{name}-{secrets.token_hex(8)}"

    def remove_unfinished_folders(self, older_than_ms: int) -> None:
        """Remove what a killed runtime was creating or removing.

        A folder that is being created has no lock at first; recent ones are kept.
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
    """A folder's descriptor: relative operations stay inside it. Raises OSError."""
    handle = os.open(folder, _FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def open_lock(folder: Path, *, wait: bool) -> int:
    """Lock a kernel's folder; raises BlockingIOError unless it may `wait`.

    Raises FileNotFoundError if the folder does not exist, or was removed while waiting.
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
        raise FileNotFoundError(errno.ENOENT, "the folder was replaced", str(path))


@contextmanager
def locked_if_free(folder: Path) -> Iterator[bool]:
    """Hold the lock if it is free; False if a start is under way or no folder exists."""
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
    """Remove a folder recursively without following links; a missing one is no error."""
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
        for below in os.listdir(folder):  # noqa: PTH208  # a descriptor has no path
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
        # Its owner removed the read permission. An O_PATH descriptor allows to restore it without following a link.
        bare = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            Path(f"/proc/self/fd/{bare}").chmod(PRIVATE)
        finally:
            os.close(bare)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    return folder


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure."""
    with opened(folder) as handle:
        os.fsync(handle)
