"""Processes from /proc, identified by pid and start time."""

from __future__ import annotations

import errno
import os
import signal
from functools import cache

ZOMBIE = "ZX"
# Every process of a kernel has a limit of 0 on file locks, which Linux ignores since 2.4: an unprivileged process
# passes it on and cannot raise it, so that it identifies processes that hide in every other way.
MARK_LIMIT = 10  # RLIMIT_LOCKS, for which the standard library has no name
_MARK_LINE = "Max file locks"
_STOP_ROUNDS = 50
_FORKED_ONLY = 0x40  # PF_FORKNOEXEC: a copy of its parent, which runs no program of its own yet


class Process:
    """One process, identified by pid and start time."""

    __slots__ = (
        "child_cpu",
        "has_executed",
        "own_cpu",
        "pages",
        "parent",
        "pid",
        "session",
        "start",
        "state",
        "threads",
    )

    def __init__(self, pid: int, fields: list[str]) -> None:
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.has_executed = not int(fields[6]) & _FORKED_ONLY
        # In clock ticks; that of children counts when they have ended.
        self.own_cpu = int(fields[11]) + int(fields[12])
        self.child_cpu = int(fields[13]) + int(fields[14])
        self.threads = int(fields[17])
        self.start = int(fields[19])
        # Resident pages; those that processes share count for each.
        self.pages = int(fields[21])

    @property
    def alive(self) -> bool:
        """Whether it still runs; other threads may outlive its first one."""
        return self.state not in ZOMBIE or self.threads > 1


def look_up(pid: int) -> Process | None:
    """The process of this pid; None if there is none."""
    text = read_text(f"/proc/{pid}/stat")
    # The name is in brackets and may contain anything, brackets included.
    fields = text.rpartition(")")[2].split()
    return Process(pid, fields) if len(fields) > 21 else None


def is_alive(pid: int, start: int) -> bool:
    """Whether the process of this pid and start time still runs."""
    found = look_up(pid)
    return found is not None and found.start == start and found.alive


def all_processes() -> list[Process]:
    """Every visible process."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [found for found in map(look_up, numbers) if found is not None]


def is_marked(pid: int) -> bool:
    """Whether a process belongs to a kernel of any runtime."""
    for line in read_text(f"/proc/{pid}/limits").splitlines():
        if line.startswith(_MARK_LINE):
            return line.removeprefix(_MARK_LINE).split()[1:2] == ["0"]
    return False


def descendants(root: int) -> list[Process]:
    """Every live process below `root`, without itself."""
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for child in children.pop(waiting.pop(), ()):
            waiting.append(child.pid)
            if child.alive:
                found.append(child)
    return found


def children(pid: int) -> list[Process]:
    """The processes that the main thread of `pid` has started."""
    numbers = read_text(f"/proc/{pid}/task/{pid}/children").split()
    return [found for found in map(look_up, map(int, numbers)) if found is not None]


def send(process: Process, number: int) -> bool:
    """Send a signal to exactly this process; False if it has ended."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError as error:
        return error.errno == errno.ENOSYS and _send_by_number(process, number)
    try:
        # The pid may have been reused; the start time shows it.
        if not is_alive(process.pid, process.start):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _send_by_number(process: Process, number: int) -> bool:
    try:
        if is_alive(process.pid, process.start):
            os.kill(process.pid, number)
            return True
    except OSError:
        pass
    return False


def kill_below(root: int) -> None:
    """Kill everything below `root`; stopped first, so that none forks meanwhile."""
    stopped: set[tuple[int, int]] = set()
    for _ in range(_STOP_ROUNDS):
        fresh = [process for process in descendants(root) if (process.pid, process.start) not in stopped]
        if not fresh:
            break
        for process in fresh:
            send(process, signal.SIGSTOP)
            stopped.add((process.pid, process.start))
    for process in descendants(root):
        send(process, signal.SIGKILL)


@cache
def boot_id() -> str:
    """An id of the current boot of the machine, in which this process began, too."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def read_text(path: str) -> str:
    """The text of a small system file; empty if it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        pieces = []
        while piece := os.read(handle, 65536):
            pieces.append(piece)
        return b"".join(pieces).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
