"""Copies the files of an upload into a folder of a kernel, following no link out."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sokovan.adapters.process.files.file_access import Identity, opened_beneath
from sokovan.adapters.process.files.kernel_folders import FoundPath
from sokovan.adapters.process.shim.thread_account import rights_of
from sokovan.domain.errors import quoted
from sokovan.ports.kernel_files import FileMissing, FileRefused

PART = ".sokovan-"
FOLDER_MODE = 0o755
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def place_tree(source: Path, target: FoundPath, *, hidden: Collection[Identity] = (), into: bool = False) -> str:
    """Move the only entry of `source`; returns its path as the kernel sees it.

    An existing folder is the one to move it `into`; otherwise it gets the name of the
    path. In a folder of the machine it is written by the kernel's account, and so copied:
    the account cannot enter `source`. Raises FileRefused.
    """
    if target.folder.read_only:
        raise FileRefused(f"{target.folder.seen} is mounted read-only")
    [name] = [entry.name for entry in os.scandir(source)]
    account = target.folder.account
    with rights_of(account):
        parts = (*target.parts, name) if into or _is_folder(target, hidden) else target.parts
    try:
        with ExitStack() as closing:
            with rights_of(account):
                folder = closing.enter_context(_folder_for(target, parts[:-1], hidden))
            _move(source / name, folder, parts[-1], account)
    except OSError as error:
        problem = "no space is left on the disk" if error.errno == errno.ENOSPC else str(error.strerror)
        raise FileRefused(f"{quoted('/'.join(parts))} cannot be written: {problem}") from error
    return str(target.folder.seen.joinpath(*parts))


def _is_folder(target: FoundPath, hidden: Collection[Identity]) -> bool:
    try:
        with opened_beneath(target.folder.place, target.parts, hidden=hidden) as found:
            return os.path.isdir(f"/proc/self/fd/{found}")  # noqa: PTH112  # a descriptor
    except FileMissing:
        return False


@contextmanager
def _folder_for(target: FoundPath, parts: Sequence[str], hidden: Collection[Identity]) -> Iterator[int]:
    """The folder of these parts; what is missing of it is created."""
    with ExitStack() as closing:
        folder, there = _deepest(target, parts, hidden, closing)
        for part in parts[there:]:
            folder = closing.enter_context(_made(folder, part))
        yield folder


def _deepest(
    target: FoundPath, parts: Sequence[str], hidden: Collection[Identity], closing: ExitStack
) -> tuple[int, int]:
    """The deepest of these folders that exists, and how many parts lead to it."""
    for count in range(len(parts), 0, -1):
        with suppress(FileMissing):
            return closing.enter_context(opened_beneath(target.folder.place, parts[:count], hidden=hidden)), count
    return closing.enter_context(opened_beneath(target.folder.place, (), hidden=hidden)), 0


@contextmanager
def _made(folder: int, name: str) -> Iterator[int]:
    with suppress(FileExistsError):
        os.mkdir(name, FOLDER_MODE, dir_fd=folder)
        _hand_over(folder, name)
    handle = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _move(source: Path, folder: int, name: str, account: int | None) -> None:
    """Move a file, or a folder file by file: those that exist are replaced whole."""
    if source.is_dir():
        with ExitStack() as closing:
            with rights_of(account):
                below = closing.enter_context(_made(folder, name))
            for entry in sorted(os.listdir(source)):  # noqa: PTH208  # names only
                _move(source / entry, below, entry, account)
        return
    if account is not None:
        _copy(source, folder, name, account)
        return
    try:
        os.rename(source, name, dst_dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, folder, name, None)
    _hand_over(folder, name)


def _hand_over(folder: int, name: str) -> None:
    """Give a file to the owner of its folder: the kernel may have another account."""
    about = os.fstat(folder)
    if about.st_uid != os.geteuid():
        with suppress(PermissionError):
            os.chown(name, about.st_uid, about.st_gid, dir_fd=folder, follow_symlinks=False)


def _copy(source: Path, folder: int, name: str, account: int | None) -> None:
    """Copy to another disk, or as an account; complete or not at all."""
    fresh = f"{PART}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with source.open("rb") as content, rights_of(account):
        mode = os.fstat(content.fileno()).st_mode & 0o777
        handle = os.open(fresh, flags, mode, dir_fd=folder)
        try:
            with open(handle, "wb") as target:  # noqa: PTH123  # a descriptor
                shutil.copyfileobj(content, target, 1 << 20)
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=folder)
            raise
