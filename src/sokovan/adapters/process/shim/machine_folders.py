"""Opens folders of the machine by paths from users, following no link.

A path without links is where it says, so that a decision about the path is one about the
folder. What is opened is what is bound: a link that appears later changes nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os

_OPENAT2 = 437  # the same on all architectures
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# Unknown to the system, or to the filter of a container around it.
_ABSENT = (errno.ENOSYS, errno.EPERM)

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_folder(path: str) -> int:
    """A descriptor of the folder at an absolute path without links.

    It names the folder and cannot read it. Raises OSError: ELOOP, or ENOTDIR on older systems, for a link.
    """
    root = os.open("/", _FOLDER)
    try:
        below = path.strip("/") or "."
        handle = _openat2(root, below)
        return _walked(root, below) if handle is None else handle
    finally:
        os.close(root)


def _openat2(root: int, path: str) -> int | None:
    """Open beneath `root` in one call; None if the system has no such call."""
    how = _OpenHow(_FOLDER, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    name = ctypes.c_char_p(os.fsencode(path))
    handle = _libc.syscall(
        ctypes.c_long(_OPENAT2), ctypes.c_int(root), name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
    )
    if handle >= 0:
        return int(handle)
    number = ctypes.get_errno()
    if number in _ABSENT:
        return None
    raise OSError(number, os.strerror(number), f"/{path}")


def _walked(root: int, path: str) -> int:
    """Open each part in the folder before it."""
    if ".." in path.split("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), f"/{path}")
    handle = os.dup(root)
    try:
        for part in path.split("/"):
            inner = os.open(part or ".", _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(handle)
        raise
    return handle


def folder_failure(path: str, error: OSError) -> str:
    """Why a folder cannot be opened, for its user."""
    if os.path.realpath(path) != os.path.normpath(path):
        return f"{path} is or contains a symbolic link; name the folder that it leads to"
    if error.errno == errno.ENOTDIR:
        return f"{path} is not a folder"
    return f"{path} cannot be used: {error.strerror}" if error.errno != errno.ENOENT else f"{path} does not exist"
