"""Machines of the reference scheduler: what is free on each, one object at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.snapshot import KernelWorkload

ONE = 2**20
Kind = tuple[object, ...]


@dataclass
class Machine:
    """One agent. `future` is what will be idle once everything on its way out has gone."""

    info: AgentInfo
    idle: dict[str, int]
    future: dict[str, int]
    places: float
    places_later: float

    def copied(self) -> Machine:
        return Machine(self.info, dict(self.idle), dict(self.future), self.places, self.places_later)

    def fits_idle(self, kernel: KernelWorkload) -> bool:
        return self.places >= 1 and all(self.idle.get(slot, 0) >= n for slot, n in kernel.slots.items())

    def fits_later(self, kernel: KernelWorkload) -> bool:
        return self.places_later >= 1 and all(self.future.get(slot, 0) >= n for slot, n in kernel.slots.items())

    def fits_now(self, kernel: KernelWorkload) -> bool:
        """Room that is idle and that nobody was promised."""
        return self.fits_idle(kernel) and self.fits_later(kernel)

    def take(self, kernel: KernelWorkload) -> None:
        for slot, amount in kernel.slots.items():
            self.idle[slot] -= amount
        self.places -= 1
        self.promise(kernel)

    def promise(self, kernel: KernelWorkload) -> None:
        for slot, amount in kernel.slots.items():
            self.future[slot] -= amount
        self.places_later -= 1

    def suits(self, kernel: KernelWorkload) -> bool:
        """Architecture and labels, which no waiting changes."""
        labels = self.info.labels
        return self.info.architecture == kernel.architecture and all(
            labels.get(name) == value for name, value in kernel.require.items()
        )

    def held_if_empty(self, kernel: KernelWorkload) -> float:
        """How many such kernels the machine could hold if it were empty."""
        limit = math.inf if self.info.kernels_max is None else self.info.kernels_max
        return min([limit, *(self.info.available_slots[slot] // n for slot, n in kernel.slots.items())])

    def occupancy(self) -> int:
        """The largest used part of any slot, rounded down to a 2**20th; full is full."""
        slots = self.info.available_slots.items()
        return min(ONE, max([0, *((total - self.idle[slot]) * ONE // total for slot, total in slots)]))


def machine_of(info: AgentInfo) -> Machine:
    """A machine as it stands when the cycle begins."""
    names = {*info.available_slots, *info.occupied_slots}
    idle = {slot: info.available_slots[slot] - info.occupied_slots[slot] for slot in names}
    future = {slot: idle[slot] + info.releasing_slots[slot] for slot in names}
    limit = math.inf if info.kernels_max is None else info.kernels_max
    places = limit - info.kernel_count
    return Machine(info, idle, future, places, places + info.releasing_count)


@dataclass
class World:
    """All machines, and the agent that was used last. A trial works on it and may go back to a copy."""

    machines: dict[str, Machine]
    last: str | None

    def copied(self) -> World:
        return World({name: machine.copied() for name, machine in self.machines.items()}, self.last)

    def restore(self, saved: World) -> None:
        self.machines, self.last = saved.copied().machines, saved.last


def kind_of(kernel: KernelWorkload) -> Kind:
    """Kernels of one kind may go to the same places."""
    return (kernel.slots, kernel.architecture, tuple(sorted(kernel.require.items())))


def largest_amounts(agents: Iterable[AgentInfo]) -> dict[str, int]:
    """The largest amount of each slot that any agent has."""
    largest: dict[str, int] = {}
    for info in agents:
        for slot, amount in info.available_slots.items():
            largest[slot] = max(amount, largest.get(slot, 0))
    return largest
