"""The sockets that listen at a port, and whether they are those of a kernel."""

from __future__ import annotations

import contextlib
import os

from sokovan.adapters.process.ports.port_listeners import PortListeners
from sokovan.adapters.process.shim.processes import Process, read_text

_LISTENS = "0A"  # the state in /proc/net/tcp
# Ports of kernels whose sockets are remembered.
KNOWN_MAX = 4_096


class KnownListeners:
    """Sockets that were found in a kernel before, by its shim and their port.

    To look for a socket in all processes of a kernel is slow. A socket keeps its number, and no
    other one gets it: as long as the same sockets listen, they are the kernel's.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, int], frozenset[int]] = {}

    def are_of(self, shim: Process, port: int, sockets: frozenset[int]) -> bool:
        """Whether all of these are known to be the kernel's."""
        return sockets <= self._found.get((shim.pid, shim.start, port), frozenset())

    def note(self, shim: Process, port: int, sockets: frozenset[int]) -> None:
        """Remember that these are the kernel's."""
        if len(self._found) >= KNOWN_MAX:
            self._found.clear()
        self._found[shim.pid, shim.start, port] = sockets


def sockets_at(port: int) -> frozenset[int]:
    """The numbers of all sockets that listen on a port of this machine."""
    listeners = PortListeners()
    found = listeners.every(port)
    listeners.close()
    return _listed_at(port) if found is None else found


def _listed_at(port: int) -> frozenset[int]:
    """The same from the tables of all sockets, for machines that answer no such question."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_text(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(int(fields[9]))
    return frozenset(found)


def sockets_of(pid: int) -> set[int]:
    """The open sockets of a process; empty if they may not be read."""
    found = set()
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)  # noqa: PTH115  # there may be thousands
                if target.startswith("socket:["):
                    found.add(int(target[len("socket:[") : -1]))
    return found
