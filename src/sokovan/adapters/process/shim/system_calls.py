"""System calls that the standard library does not offer."""

from __future__ import annotations

import ctypes
import os

_PDEATHSIG = 1
_CAPBSET_DROP = 24
_CHILD_SUBREAPER = 36
_NO_NEW_PRIVS = 38
_CAPABILITIES_MAX = 64
_SECCOMP = 22
_SECCOMP_FILTER = 2
_INSTRUCTION_BYTES = 8
# The same numbers on all architectures.
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_VERSION = 1
# Abstract sockets and signals of processes outside, since version 6.
_LANDLOCK_SCOPES = 3
_SCOPES_SINCE = 6

NAMESPACES = {
    "user": 0x10000000,
    "mnt": 0x00020000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        _raise("prctl")


def _raise(call: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{call}: {os.strerror(number)}")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Have this process signalled when its parent ends."""
    _prctl(_PDEATHSIG, number)


def forbid_new_privileges() -> None:
    """Prevent programs from gaining privileges, such as by setuid."""
    _prctl(_NO_NEW_PRIVS, 1)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def filter_calls(program: bytes) -> None:
    """Refuse system calls by a program of seccomp, for good; raises OSError."""
    described = _Filter(len(program) // _INSTRUCTION_BYTES, program)
    if _libc.prctl(_SECCOMP, ctypes.c_ulong(_SECCOMP_FILTER), ctypes.byref(described)) != 0:
        _raise("seccomp")


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def can_separate() -> bool:
    """Whether the system knows `separate`."""
    version = _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION))
    return bool(version >= _SCOPES_SINCE)


def separate() -> None:
    """Keep this process from abstract sockets and signals of others, by Landlock.

    For good, and also from looking into other processes; the same holds for its descendants.
    Raises OSError.
    """
    rules = _Rules(0, 0, _LANDLOCK_SCOPES)
    size = ctypes.c_size_t(ctypes.sizeof(rules))
    handle = _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), ctypes.byref(rules), size, ctypes.c_uint(0))
    if handle < 0:
        _raise("landlock")
    try:
        forbid_new_privileges()
        if _libc.syscall(ctypes.c_long(_LANDLOCK_RESTRICT), ctypes.c_int(handle), ctypes.c_uint(0)) != 0:
            _raise("landlock")
    finally:
        os.close(handle)


def drop_capabilities() -> None:
    """Drop all capabilities for the next program."""
    for capability in range(_CAPABILITIES_MAX):
        try:
            _prctl(_CAPBSET_DROP, capability)
        except OSError:  # unknown to the system, or not permitted
            return


def make_user_namespace() -> None:
    """Move this process into a new user namespace; raises OSError."""
    if _libc.unshare(ctypes.c_int(NAMESPACES["user"])) != 0:
        _raise("unshare")


def enter_namespaces(pid: int) -> None:
    """Enter the namespaces of `pid`; the pid namespace applies to children."""
    flags = 0
    for name, flag in NAMESPACES.items():
        if os.stat(f"/proc/{pid}/ns/{name}").st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
            flags |= flag
    handle = os.pidfd_open(pid)
    try:
        if _libc.setns(handle, ctypes.c_int(flags)) != 0:
            _raise("setns")
    finally:
        os.close(handle)
