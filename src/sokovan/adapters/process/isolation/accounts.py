"""Accounts of the machine for kernels: a number per user, durable on this agent.

An agent that runs as root starts no kernel under its own account. The numbers belong to no
entry of /etc/passwd and are never used for another user again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import subprocess
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.shim.state_files import read_record, write_record
from sokovan.adapters.process.shim_launcher import START_LIMIT_S, light_command
from sokovan.ports.runtime import RuntimeFailure

RECORD = "accounts.json"
# Room for as many users as a range has numbers; the name of an owner has at most some hundred bytes.
RECORD_BYTES_MAX = 64 << 20
# Namespaces that are kept open: creating them takes some milliseconds.
KEPT_MAX = 256
# Creating them takes longer only where something is wrong.
BEGIN_LIMIT_S = 10
_BOOT = "from sokovan.adapters.process.shim.user_namespaces import main; main()"


@dataclass(frozen=True, slots=True)
class Account:
    """A number for files and processes, and its two user namespaces as descriptors.

    They are of this process; a shim opens them by its pid. `close` closes them.
    """

    number: int
    namespaces: tuple[int, int]

    def plan(self) -> dict[str, Any]:
        """The number and the paths of the namespaces, for a shim."""
        files = [f"/proc/{os.getpid()}/fd/{handle}" for handle in self.namespaces]
        return {"number": self.number, "namespaces": files}

    def copy(self) -> Account:
        """The same account with descriptors of its own."""
        outer, inner = map(os.dup, self.namespaces)
        return Account(self.number, (outer, inner))

    def close(self) -> None:
        """Close the descriptors; kernels that run keep their namespaces."""
        for handle in self.namespaces:
            os.close(handle)


@dataclass
class Accounts:
    """The accounts of one agent, from a range; the first number is kept unused."""

    root: Path
    numbers: range
    _kept: OrderedDict[int, Account] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, owner: str) -> Account:
        """The account of a user, the same for ever; the caller closes it.

        Its descriptors are a copy: those kept here are closed as others come. Raises
        RuntimeFailure, OSError.
        """
        with self._lock:
            number = self._number(owner)
            found = self._kept.get(number) or Account(number, user_namespaces(self.numbers[0], number))
            self._kept[number] = found
            self._kept.move_to_end(number)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)[1].close()
            return found.copy()

    def number_of(self, owner: str) -> int:
        """The number of a user's account. Raises RuntimeFailure, OSError."""
        with self._lock:
            return self._number(owner)

    def close(self) -> None:
        """Close the namespaces; kernels that run keep theirs."""
        with self._lock:
            while self._kept:
                self._kept.popitem()[1].close()

    def _number(self, owner: str) -> int:
        with opened(self.root) as folder:
            known = _known(folder)
            if owner not in known:
                if len(known) + 1 >= len(self.numbers):
                    raise RuntimeFailure(
                        f"all {len(self.numbers)} accounts of this agent are in use",
                        hint="set a larger range as agent.accounts",
                    )
                # Recorded before it is used: a number is never given twice.
                known[owner] = _free_place(owner, set(known.values()), len(self.numbers))
                write_record(folder, RECORD, known)
        if known[owner] >= len(self.numbers):
            raise RuntimeFailure("the range of accounts is smaller than before", hint="set agent.accounts as it was")
        return self.numbers[known[owner]]


def _free_place(owner: str, taken: set[int], count: int) -> int:
    """The place of a user in a range of `count` numbers, or the next one that is free.

    It follows from the name, so that agents with equal ranges agree unless two names meet.
    """
    digest = hashlib.sha256(owner.encode()).digest()
    place = int.from_bytes(digest[:8]) % (count - 1)
    while place + 1 in taken:
        place = (place + 1) % (count - 1)
    return place + 1


def _known(folder: int) -> dict[str, int]:
    """The numbers given so far. Raises RuntimeFailure.

    A record that cannot be read is not taken for an empty one: numbers would be given again.
    """
    known = read_record(folder, RECORD, bytes_max=RECORD_BYTES_MAX)
    if known is None and RECORD in os.listdir(folder):
        raise RuntimeFailure(
            f"{RECORD}, the record of accounts, cannot be read",
            hint="restore it; a new one gives users the files of others",
        )
    return known or {}


def user_namespaces(unused: int, number: int) -> tuple[int, int]:
    """The user namespaces of an account. Raises RuntimeFailure, OSError."""
    with subprocess.Popen(  # noqa: S603  # this interpreter and a constant
        [*light_command(_BOOT), str(unused), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={},
    ) as helper:
        assert helper.stdout is not None  # noqa: S101  # it is a pipe
        pids = sorted(_numbers_said(helper.stdout.fileno()))
        try:
            if len(pids) != 2:
                helper.kill()
                raise RuntimeFailure("user namespaces for accounts cannot be created on this machine")
            handles = [os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC) for pid in _outer_first(pids)]
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                helper.communicate(timeout=START_LIMIT_S)
    return handles[0], handles[1]


def _numbers_said(output: int) -> list[int]:
    """The two numbers that the helper writes; fewer if it fails or is too slow."""
    said, ready = b"", select.poll()
    ready.register(output, select.POLLIN)
    while len(said.split()) < 2 or not said.endswith(b" "):
        piece = os.read(output, 64) if ready.poll(BEGIN_LIMIT_S * 1000) else b""
        if not piece:
            break
        said += piece
    return list(map(int, said.split()))


def _outer_first(pids: list[int]) -> list[int]:
    """The namespace with more accounts is the outer one."""
    return sorted(pids, key=lambda pid: -len(Path(f"/proc/{pid}/uid_map").read_text(encoding="ascii").splitlines()))


def hand_over(folder: Path, number: int) -> None:
    """Give a folder with all files to an account, unless it has it; follows no link."""
    try:
        if folder.stat(follow_symlinks=False).st_uid == number:
            return
    except FileNotFoundError:
        return
    for _, folders, files, here in os.fwalk(folder, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, number, number, dir_fd=here, follow_symlinks=False)
    # At last: until then it counts as not handed over.
    os.chown(folder, number, number, follow_symlinks=False)
