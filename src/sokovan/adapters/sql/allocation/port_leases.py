"""Ranks and ports of kernels: assigned when they are placed, on locked rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from sokovan.adapters.sql.repositories.sessions.session_rows import NO_PORTS, KernelRow, SessionRow, ports_of
from sokovan.domain.cluster.agent import PORTS_DEFAULT
from sokovan.domain.session import ANY_PORT, MASTER_LEASE
from sokovan.domain.slots import needs_master_port


@dataclass(slots=True)
class PortLeases:
    """Tracks the ports of one agent that are leased, or were until recently."""

    offered: range = PORTS_DEFAULT
    taken: set[int] = field(default_factory=set)
    _next: int = 0

    def take(self, requested: Mapping[str, int]) -> Mapping[str, int] | None:
        """Lease a port for each name; None, and nothing leased, if one is not free."""
        picked: dict[str, int] = {}
        # Fixed ports first: another request must not get one of them by chance.
        for name, port in sorted(requested.items(), key=lambda pair: (pair[1] == ANY_PORT, pair[0])):
            free = self._any() if port == ANY_PORT else port
            if free is None or free in self.taken:
                self.put_back(picked.values())
                return None
            self.taken.add(free)
            picked[name] = free
        return picked

    def put_back(self, ports: Iterable[int]) -> None:
        """Undo a `take`."""
        self.taken.difference_update(ports)
        self._next = 0

    def _any(self) -> int | None:
        """The lowest free port of the range; ports before `_next` are taken."""
        for position in range(self._next, len(self.offered)):
            if self.offered[position] not in self.taken:
                self._next = position
                return self.offered[position]
        return None


def leases_ports(session: SessionRow) -> bool:
    """Whether kernels of a session need ports: for services, or to meet."""
    return _meets(session) or any(kernel.ports_text != NO_PORTS for kernel in session.kernels.values())


def requested_ports(session: SessionRow, kernel: KernelRow) -> Mapping[str, int]:
    """The ports that a kernel needs on its agent; all meet at the kernel of rank 0."""
    services = ports_of(kernel.ports_text)
    return {**services, MASTER_LEASE: ANY_PORT} if kernel.rank == 0 and _meets(session) else services


def _meets(session: SessionRow) -> bool:
    return needs_master_port([kernel.slots for kernel in session.kernels.values()])


def assign_ranks(session: SessionRow, placed: Collection[str]) -> None:
    """Rank kernels that are to be placed, by index, with the lowest unused ranks.

    A kernel keeps its rank when it is placed again, because the environment of the others is based on it.
    If nothing else of the session was ever placed, all of them start anew from 0.
    """
    chosen = sorted((session.kernels[kernel_id] for kernel_id in placed), key=lambda kernel: kernel.index)
    if all(kernel.agent_id is None for kernel in session.kernels.values()):
        for kernel in session.kernels.values():
            kernel.rank = None
    taken = {kernel.rank for kernel in session.kernels.values()}
    unused = (rank for rank in count() if rank not in taken)
    for kernel in chosen:
        if kernel.rank is None:
            kernel.rank = next(unused)
