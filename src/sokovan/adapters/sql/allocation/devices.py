"""Which devices a kernel gets: whole ones by number, shares where they fit best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.slots import ResourceSlot


@dataclass(slots=True)
class DeviceAllocator:
    """The free units of each device of one agent, by slot.

    A slot without any device (cpu, memory) is not kept here, and is only counted.
    """

    free: dict[str, dict[str, int]] = field(default_factory=dict)
    units: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, slot: str, device: str, *, units: int, free: int) -> None:
        """Put a device on the shelf."""
        self.free.setdefault(slot, {})[device] = free
        self.units[slot, device] = units

    def exclusive(self, slot: str, device: str) -> bool:
        """Whether one kernel has the whole device."""
        return self.units[slot, device] == 1

    def take(self, slots: ResourceSlot) -> Mapping[str, tuple[tuple[str, int], ...]] | None:
        """The devices for these slots as (device, units); None if there are too few.

        A share goes to the fullest device that holds it whole, so that empty ones stay
        empty; what no single device holds is spread over the emptiest.
        """
        picked: dict[str, tuple[tuple[str, int], ...]] = {}
        for slot, amount in slots.items():
            if slot not in self.free:
                continue
            choice = _choose(self.free[slot], amount)
            if choice is None:
                self.put_back(picked)
                return None
            for device, units in choice:
                self.free[slot][device] -= units
            picked[slot] = choice
        return picked

    def put_back(self, picked: Mapping[str, tuple[tuple[str, int], ...]]) -> None:
        """Undo a `take`."""
        for slot, choice in picked.items():
            for device, units in choice:
                self.free[slot][device] += units


def _choose(free: Mapping[str, int], amount: int) -> tuple[tuple[str, int], ...] | None:
    holding = [(units, device) for device, units in free.items() if units >= amount]
    if holding:
        return ((min(holding)[1], amount),)
    choice: list[tuple[str, int]] = []
    for units, device in sorted((-units, device) for device, units in free.items() if units):
        part = min(amount, -units)
        choice.append((device, part))
        amount -= part
        if amount == 0:
            return tuple(choice)
    return None
