"""Faults of an agent's devices over several readings. Pure.

One failed reading says little: the machine may be busy. A device that is back for one
reading may be lost again in the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.cluster.agent_health import FAULT_LENGTH_MAX
from sokovan.ports.agent_states import DeviceFigures

# Readings in a row that must fail before every device counts as faulty.
FAILED_READINGS = 3
# Readings in a row without a fault after which a device counts as healthy again.
CLEAN_READINGS = 2
LOST = "the driver does not list it any more"


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """The listed devices with their faults, empty if healthy; or why there is no list.

    `figures` are what they do.
    """

    listed: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    figures: Mapping[str, DeviceFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceFaults:
    """The faults of `devices`; `failed` and `clean` count readings in a row."""

    devices: tuple[str, ...]
    faults: Mapping[str, str] = field(default_factory=dict)
    failed: int = 0
    clean: Mapping[str, int] = field(default_factory=dict)

    def after(self, reading: DeviceReading) -> DeviceFaults:
        """The faults after another reading."""
        if reading.failure and self.failed + 1 < FAILED_READINGS:
            return DeviceFaults(self.devices, self.faults, self.failed + 1, self.clean)
        found = {one: _fault_of(one, reading)[:FAULT_LENGTH_MAX] for one in self.devices}
        clean = {one: self.clean.get(one, 0) + 1 for one in self.faults if not found[one]}
        healing = {one: self.faults[one] for one, count in clean.items() if count < CLEAN_READINGS}
        faults = {one: fault for one in self.devices if (fault := found[one] or healing.get(one, ""))}
        failed = self.failed + 1 if reading.failure else 0
        return DeviceFaults(self.devices, faults, failed, {one: clean[one] for one in healing})


def _fault_of(device: str, reading: DeviceReading) -> str:
    return reading.failure or reading.listed.get(device, LOST)
