"""The system calls that kernels in a sandbox cannot use, as a program of seccomp.

They change namespaces and mounts, read other processes, load code into the system or
have had many faults, and are of no use to a kernel without capabilities.
"""

from __future__ import annotations

import errno
import platform
import stat
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sokovan.adapters.process.shim.system_calls import can_separate

# Numbers by system call: x86_64, aarch64.
DENIED = {
    "ptrace": (101, 117),
    "syslog": (103, 116),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "mount": (165, 40),
    "umount2": (166, 39),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "quotactl": (179, 60),
    "clock_settime": (227, 112),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "finit_module": (313, 273),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
}
_CLONE, _CLONE3, _IOCTL = (56, 220), (435, 435), (16, 29)
# CLONE_NEWTIME and the flags from CLONE_NEWNS to CLONE_NEWNET, without CLONE_IO.
_NEW_NAMESPACES = 0x7E020080
# Put characters into the input of a terminal.
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FOREIGN_NUMBERS = 0x40000000  # the x32 calls of x86_64

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int
    audit: int


_MACHINES = {"x86_64": _Machine(0, 0xC000003E), "aarch64": _Machine(1, 0xC00000B7)}


@lru_cache
def system_call_filter(machine: str = "") -> bytes:
    """The filter of this machine as instructions; empty for an unknown architecture."""
    known = _MACHINES.get(machine or platform.machine())
    return b"" if known is None else b"".join(_instructions(known))


def separates(program: str) -> bool:
    """Whether the shims of this sandbox program can use Landlock.

    A program that gains rights could then not start.
    """
    return can_separate() and not Path(program).stat().st_mode & stat.S_ISUID


def _instructions(machine: _Machine) -> list[bytes]:
    denied = [_step(_RETURN, _ERRNO | errno.EPERM)]
    missing = [_step(_RETURN, _ERRNO | errno.ENOSYS)]
    allowed = [_step(_RETURN, _ALLOW)]
    flags = [_step(_LOAD, _FIRST_ARGUMENT), _step(_JUMP_SET, _NEW_NAMESPACES, otherwise=1), *denied, *allowed]
    first, second = _TERMINAL_INPUT
    requests = [
        *[_step(_LOAD, _SECOND_ARGUMENT), _step(_JUMP_EQUAL, first, then=1)],
        *[_step(_JUMP_EQUAL, second, otherwise=1), *denied, *allowed],
    ]
    return [
        _step(_LOAD, _ARCHITECTURE),
        *_where(_step(_JUMP_EQUAL, machine.audit, then=1), missing),
        _step(_LOAD, _NUMBER),
        *_where(_step(_JUMP_GREATER_EQUAL, _FOREIGN_NUMBERS, otherwise=1), missing),
        *[step for numbers in DENIED.values() for step in _for(numbers[machine.column], denied)],
        # Its flags are in memory, which a filter cannot read; the C library falls back to clone.
        *_for(_CLONE3[machine.column], missing),
        *_for(_CLONE[machine.column], flags),
        *_for(_IOCTL[machine.column], requests),
        *allowed,
    ]


def _for(number: int, steps: list[bytes]) -> list[bytes]:
    """Steps for one system call only."""
    return _where(_step(_JUMP_EQUAL, number, otherwise=len(steps)), steps)


def _where(condition: bytes, steps: list[bytes]) -> list[bytes]:
    return [condition, *steps]


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
