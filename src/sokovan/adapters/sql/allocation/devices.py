"""Device assignment: whole devices by number, shares by best fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from sokovan.domain.cluster.device_groups import device_groups
from sokovan.domain.slots import ResourceSlot


@dataclass(slots=True)
class DeviceAllocator:
    """Tracks the free units of each device of one agent, by slot.

    Slots without devices (cpu, memory) are only counted, and not tracked here. `labels` name
    groups of devices that are close together.
    """

    free: dict[str, dict[str, int]] = field(default_factory=dict)
    units: dict[tuple[str, str], int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def add(self, slot: str, device: str, *, units: int, free: int) -> None:
        """Register a device."""
        self.free.setdefault(slot, {})[device] = free
        self.units[slot, device] = units

    def exclusive(self, slot: str, device: str) -> bool:
        """Whether the device is given to one kernel as a whole."""
        return self.units[slot, device] == 1

    def take(self, slots: ResourceSlot) -> Mapping[str, tuple[tuple[str, int], ...]] | None:
        """Reserve devices for these slots as (device, units); None if too few are free.

        A share goes to the fullest device that can hold all of it, so that empty devices
        stay empty; what fits no single device is spread over the emptiest ones, of the closest
        group that has room for it if there is one.
        """
        picked: dict[str, tuple[tuple[str, int], ...]] = {}
        for slot, amount in slots.items():
            if slot not in self.free:
                continue
            choice = _choose(self._close(slot, amount), amount)
            if choice is None:
                self.put_back(picked)
                return None
            for device, units in choice:
                self.free[slot][device] -= units
            picked[slot] = choice
        return picked

    def _close(self, slot: str, amount: int) -> Mapping[str, int]:
        """The free units of the devices to choose from: of one group if several are needed."""
        free = self.free[slot]
        if amount <= max(free.values()):
            return free
        for rank, same in groupby(device_groups(self.labels, list(free)), key=lambda one: (one.rank, len(one.devices))):
            del rank
            rooms = [{device: free[device] for device in group.devices} for group in same]
            fitting = [room for room in rooms if sum(room.values()) >= amount]
            if fitting:  # the fullest of equal groups, so that others stay whole
                return min(fitting, key=lambda room: sum(room.values()))
        return free

    def put_back(self, picked: Mapping[str, tuple[tuple[str, int], ...]]) -> None:
        """Undo a `take`."""
        for slot, choice in picked.items():
            for device, units in choice:
                self.free[slot][device] += units


def _choose(free: Mapping[str, int], amount: int) -> tuple[tuple[str, int], ...] | None:
    fitting = [(units, device) for device, units in free.items() if units >= amount]
    if fitting:
        return ((min(fitting)[1], amount),)
    choice: list[tuple[str, int]] = []
    for units, device in sorted((-units, device) for device, units in free.items() if units):
        part = min(amount, -units)
        choice.append((device, part))
        amount -= part
        if amount == 0:
            return tuple(choice)
    return None
