"""Machine selection of the reference scheduler: every machine is checked for every kernel."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SystemSnapshot
from tests.reference.affinity import Affinity
from tests.reference.machines import ONE, ClusterState, Machine, largest_amounts
from tests.reference.timing import Timetable


class Chooser:
    """The rules of the built-in selectors, of shards and of unused accelerators."""

    def __init__(
        self, snapshot: SystemSnapshot, profile: SchedulingProfile, cluster: ClusterState, timetable: Timetable
    ) -> None:
        self._profile, self._cluster, self._now_ms = profile, cluster, snapshot.now_ms
        self._timetable = timetable
        self._priority = snapshot.scaling_group.slot_priority
        self._largest = largest_amounts(snapshot.agents)
        self._affinity = Affinity(snapshot, cluster)

    def eligible(self, machine: Machine, kernel: KernelWorkload) -> bool:
        """Whether the machine passes every predicate except room."""
        if self._profile.shard_mode == "hard" and machine.info.shard != self._profile.shard:
            return False
        if any(machine.info.agent_id == agent and until > self._now_ms for agent, until in kernel.avoid):
            return False
        return machine.info.schedulable and machine.suits(kernel) and machine.held_if_empty(kernel) >= 1

    def now(self, kernel: KernelWorkload, domain: Iterable[str], nominated: str | None) -> str | None:
        """The best agent of the domain with room now; the nominated one before all others."""
        if self._timetable.trial:  # of another time than now
            return None
        fitting = [m for m in self._eligible(kernel, domain) if m.fits_now(kernel)]
        return self._best(fitting, kernel, nominated)

    def later(self, kernel: KernelWorkload, domain: Iterable[str], nominated: str | None) -> str | None:
        """The best agent of the domain that will have room."""
        fitting = [m for m in self._eligible(kernel, domain) if m.fits_later(kernel)]
        return self._best(fitting, kernel, nominated)

    def _eligible(self, kernel: KernelWorkload, domain: Iterable[str]) -> list[Machine]:
        inside = set(domain)
        machines = self._cluster.machines.values()
        found = [m for m in machines if m.info.agent_id in inside and self.eligible(m, kernel)]
        found = [m for m in found if self._timetable.allows(m, kernel)]
        return [m for m in found if self._affinity.allows(m, kernel)]

    def concerned(self, kernel: KernelWorkload) -> bool:
        """Whether affinity, of its session or of another, may keep the kernel off machines."""
        return self._affinity.concerned(kernel)

    def _best(self, fitting: list[Machine], kernel: KernelWorkload, nominated: str | None) -> str | None:
        if nominated in {machine.info.agent_id for machine in fitting}:
            return nominated
        best = min(fitting, key=lambda machine: self._rank(machine, kernel), default=None)
        return None if best is None else best.info.agent_id

    def _rank(self, machine: Machine, kernel: KernelWorkload) -> tuple[object, ...]:
        """Own shard, then few unused accelerators, then the selector's preference."""
        foreign = self._profile.shard_mode == "soft" and machine.info.shard != self._profile.shard
        wasted = [
            slot
            for slot in machine.info.available_slots
            if slot.endswith((".device", ".shares")) and slot not in kernel.slots
        ]
        return (foreign, len(wasted), *self._preference(machine))

    def _preference(self, machine: Machine) -> tuple[object, ...]:
        name = machine.info.agent_id
        if self._profile.selector == "concentrated":
            return (-machine.occupancy(), self._size(machine), name)
        if self._profile.selector == "dispersed":
            return (machine.occupancy(), -self._size(machine), name)
        if self._profile.selector == "roundrobin":
            return (self._cluster.last is not None and name <= self._cluster.last, name)
        return (*(-machine.idle.get(slot, 0) for slot in self._priority), name)

    def _size(self, machine: Machine) -> int:
        slots = machine.info.available_slots.items()
        return sum(amount * ONE // self._largest[slot] for slot, amount in slots)
