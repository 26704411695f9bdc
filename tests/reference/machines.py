"""Machines of the reference scheduler: free amounts, one object per agent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sokovan.domain.cluster.agent import AgentInfo, port_range
from sokovan.domain.constraints.taint import taints_of, untolerated
from sokovan.domain.lifecycle.agent import SCHEDULABLE
from sokovan.scheduling.snapshot import KernelWorkload, SystemSnapshot

ONE = 2**20
Kind = tuple[object, ...]


@dataclass
class Ports:
    """Ports of a machine: how many of the range are free, and the numbers that are taken."""

    left: int
    taken: set[int]

    def copy(self) -> Ports:
        return Ports(self.left, set(self.taken))

    def have(self, kernel: KernelWorkload) -> bool:
        """Whether every fixed port is free, and enough others of the range."""
        return not self.taken & set(kernel.ports) and self.left >= kernel.ports.count(0)

    def take(self, kernel: KernelWorkload) -> None:
        self.left -= kernel.ports.count(0)
        self.taken |= {port for port in kernel.ports if port}

    def put_back(self, kernel: KernelWorkload) -> None:
        self.left += kernel.ports.count(0)
        self.taken -= set(kernel.ports)


@dataclass
class Machine:
    """One agent. `future` is what will be idle once everything being released is free."""

    info: AgentInfo
    idle: dict[str, int]
    future: dict[str, int]
    kernels_left: float
    kernels_later: float
    ports: Ports
    ports_later: Ports
    full: bool  # no port of the range was free at the start
    best_effort_max: int  # kernels without slots
    held: list[KernelWorkload] = field(default_factory=list)  # kernels of waiting sessions that took idle room
    present: list[KernelWorkload] = field(default_factory=list)  # kernels of sessions that run, start or wait here

    def copy(self) -> Machine:
        amounts = (dict(self.idle), dict(self.future), self.kernels_left, self.kernels_later)
        ports = (self.ports.copy(), self.ports_later.copy(), self.full, self.best_effort_max)
        return Machine(self.info, *amounts, *ports, list(self.held), list(self.present))

    def fits_without_holders(self, kernel: KernelWorkload) -> bool:
        """Whether there would be idle room if no waiting session held some."""
        amounts = {slot: sum(other.slots[slot] for other in self.held) for slot in kernel.slots}
        fits = all(self.idle.get(slot, 0) + amounts[slot] >= n for slot, n in kernel.slots.items())
        ports = self.ports.copy()
        for other in self.held:
            ports.put_back(other)
        counted = self.kernels_left + len(self.held) >= 1 and self._takes_best_effort(kernel, gone=self.held)
        return fits and counted and ports.have(kernel) and self.may_meet(kernel)

    def _takes_best_effort(self, kernel: KernelWorkload, *, gone: Sequence[KernelWorkload] = ()) -> bool:
        """Whether the limit on kernels without slots allows one more of them, if this is one."""
        here = sum(not other.slots for other in self.present) - sum(not other.slots for other in gone)
        return bool(kernel.slots) or here < self.best_effort_max

    def may_meet(self, kernel: KernelWorkload) -> bool:
        """Whether there is a port at which kernels could meet, if the kernel needs one."""
        return not (kernel.meets and self.full)

    def fits_without_ports(self, kernel: KernelWorkload) -> bool:
        """Whether there is idle room that is not reserved, apart from ports."""
        return self.fits_now(replace(kernel, ports=(), meets=False))

    def fits_idle(self, kernel: KernelWorkload) -> bool:
        fits = all(self.idle.get(slot, 0) >= n for slot, n in kernel.slots.items())
        counted = self.kernels_left >= 1 and self._takes_best_effort(kernel)
        return counted and fits and self.ports.have(kernel) and self.may_meet(kernel)

    def fits_later(self, kernel: KernelWorkload) -> bool:
        fits = all(self.future.get(slot, 0) >= n for slot, n in kernel.slots.items())
        leaving = [other for other in self.present if other.releasing]
        counted = self.kernels_later >= 1 and self._takes_best_effort(kernel, gone=leaving)
        return counted and fits and self.ports_later.have(kernel) and self.may_meet(kernel)

    def fits_now(self, kernel: KernelWorkload) -> bool:
        """Whether there is idle room that is not reserved."""
        return self.fits_idle(kernel) and self.fits_later(kernel)

    def take(self, kernel: KernelWorkload) -> None:
        for slot, amount in kernel.slots.items():
            self.idle[slot] -= amount
        self.kernels_left -= 1
        self.ports.take(kernel)
        self.reserve(kernel)

    def reserve(self, kernel: KernelWorkload) -> None:
        self.ports_later.take(kernel)
        for slot, amount in kernel.slots.items():
            self.future[slot] -= amount
        self.kernels_later -= 1
        self.present.append(kernel)

    def suits(self, kernel: KernelWorkload) -> bool:
        """Whether architecture, runtime and labels match, and every taint is tolerated."""
        return self.has_labels(kernel) and not self.repels(kernel)

    def has_labels(self, kernel: KernelWorkload) -> bool:
        """Whether architecture, runtime and labels match."""
        labels = self.info.labels
        where = kernel.constraints.where if kernel.constraints is not None else ()
        return (
            self.info.architecture == kernel.architecture
            and self.runs(kernel)
            and all(labels.get(name) == value for name, value in kernel.require.items())
            and all(condition.holds(labels) for condition in where)
        )

    def runs(self, kernel: KernelWorkload) -> bool:
        """Whether the machine has the runtime of the kernel's image, or simulates it."""
        needed = {"": "", "host": "process"}.get(kernel.image, "docker")
        match self.info.labels.get("sokovan.runtime"):
            case "fake":
                return not kernel.serves
            case None:
                return True
            case own:
                return needed in ("", own)

    def repels(self, kernel: KernelWorkload) -> bool:
        """Whether the machine has a taint that the kernel does not tolerate."""
        tolerations = kernel.constraints.tolerations if kernel.constraints is not None else ()
        return bool(untolerated(taints_of(self.info.labels), tolerations))

    def held_if_empty(self, kernel: KernelWorkload) -> float:
        """How many such kernels the machine could hold if it were empty."""
        limit = math.inf if self.info.kernels_max is None else self.info.kernels_max
        if not kernel.slots:
            limit = min(limit, self.best_effort_max)
        fixed = [1 for port in kernel.ports if port]
        offered = [len(port_range(self.info.labels)) // kernel.ports.count(0)] if 0 in kernel.ports else []
        return min(
            [limit, *fixed, *offered, *(self.info.available_slots[slot] // n for slot, n in kernel.slots.items())]
        )

    def occupancy(self) -> int:
        """The largest used part of any slot, rounded down to a 2**20th, at most 1."""
        slots = self.info.available_slots.items()
        return min(ONE, max([0, *((total - self.idle[slot]) * ONE // total for slot, total in slots)]))


def machine_of(info: AgentInfo, snapshot: SystemSnapshot) -> Machine:
    """A machine at the start of the cycle."""
    names = {*info.available_slots, *info.occupied_slots}
    idle = {slot: info.available_slots[slot] - info.occupied_slots[slot] for slot in names}
    future = {slot: idle[slot] + info.releasing_slots[slot] for slot in names}
    limit = math.inf if info.kernels_max is None else info.kernels_max
    kernels_left = limit - info.kernel_count
    taken = {port for port, until_ms in info.leased_ports if until_ms > snapshot.now_ms}
    offered = port_range(info.labels)
    ports = Ports(len(offered) - sum(port in offered for port in taken), taken)
    kernels_later = kernels_left + info.releasing_count
    running = [kernel for session in snapshot.sessions for kernel in session.kernels if kernel.agent == info.agent_id]
    amounts = (idle, future, kernels_left, kernels_later)
    best_effort_max = snapshot.scaling_group.best_effort_per_agent_max
    return Machine(info, *amounts, ports, ports.copy(), not ports.left, best_effort_max, [], running)


@dataclass
class ClusterState:
    """All machines, and the agent that was used last; a failed attempt restores a copy."""

    machines: dict[str, Machine]
    last: str | None

    def copy(self) -> ClusterState:
        return ClusterState({name: machine.copy() for name, machine in self.machines.items()}, self.last)

    def restore(self, saved: ClusterState) -> None:
        self.machines, self.last = saved.copy().machines, saved.last


def fails(machine: Machine) -> bool:
    """Whether it is alive, and gets no kernels because sessions could not be started there."""
    return machine.info.status in SCHEDULABLE and machine.info.health.is_failing and machine.info.approved


def kind_of(kernel: KernelWorkload) -> Kind:
    """The kind of a kernel: kernels of one kind fit the same machines."""
    require = tuple(sorted(kernel.require.items()))
    runtime = (kernel.image, kernel.serves)
    return (kernel.slots, kernel.architecture, require, kernel.avoid, kernel.ports, kernel.constraints, runtime)


def largest_amounts(agents: Iterable[AgentInfo]) -> dict[str, int]:
    """The largest amount of each slot that any agent has."""
    largest: dict[str, int] = {}
    for info in agents:
        for slot, amount in info.available_slots.items():
            largest[slot] = max(amount, largest.get(slot, 0))
    return largest
