"""Opens files with the rights of an account, in one thread of a process of root."""

from __future__ import annotations

import contextlib
import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_libc = ctypes.CDLL(None, use_errno=True)
# The calls themselves: the functions of the C library change all threads of the process.
_SETGROUPS = {"x86_64": 116, "aarch64": 159}.get(os.uname().machine)
# No id: the calls change nothing then, and return the current one.
_NO_ID = 0xFFFFFFFF


class AccountUnavailable(OSError):
    """The rights of an account cannot be taken on this machine."""


@contextlib.contextmanager
def rights_of(number: int | None) -> Iterator[None]:
    """Let this thread open files with the rights of an account; None changes nothing.

    Its user, group and groups for files change; without user 0 the capabilities that pass by
    permissions have no effect. Raises AccountUnavailable.
    """
    if number is None:
        yield
        return
    groups = os.getgroups()
    try:
        _set_groups([])
        _set("setfsgid", number)
        _set("setfsuid", number)
        yield
    finally:
        # The user first: the others need its capabilities.
        _set("setfsuid", os.geteuid())
        _set("setfsgid", os.getegid())
        _set_groups(groups)


def _set(call: str, number: int) -> None:
    """Set an id for files; the call returns only the one before, so it is read again."""
    change = getattr(_libc, call)
    change(ctypes.c_uint(number))
    if change(ctypes.c_uint(_NO_ID)) != number:
        raise AccountUnavailable(f"{call} {number} is not permitted")


def _set_groups(groups: list[int]) -> None:
    if _SETGROUPS is None:
        raise AccountUnavailable(f"unknown machine {os.uname().machine}")
    given = (ctypes.c_uint * len(groups))(*groups)
    if _libc.syscall(ctypes.c_long(_SETGROUPS), ctypes.c_size_t(len(groups)), given) != 0:
        number = ctypes.get_errno()
        raise AccountUnavailable(number, os.strerror(number))
