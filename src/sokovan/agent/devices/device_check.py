"""Checks the devices of this machine repeatedly, and reports faults and use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from sokovan.agent.devices.device_faults import DeviceFaults, DeviceReading
from sokovan.agent.devices.nvidia_health import NvidiaHealth
from sokovan.domain.records import Device
from sokovan.ports.agent_states import DeviceFigures
from sokovan.ports.environment import Clock

REAL = ("GPU-", "MIG-")


class DeviceCheck:
    """The check of devices that a driver has named; simulated ones have no faults.

    `report` takes the faults by device after each reading, `measured` what they do, `log` lines
    for the operator.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        clock: Clock,
        *,
        report: Callable[[Mapping[str, str]], None],
        measured: Callable[[Mapping[str, DeviceFigures]], None],
        log: Callable[[str], None],
        read: Callable[[], DeviceReading] | None = None,
    ) -> None:
        self._faults = DeviceFaults(tuple(one.device_id for one in devices if one.device_id.startswith(REAL)))
        self._clock, self._report, self._measured, self._log = clock, report, measured, log
        self._read = read or NvidiaHealth().read

    async def run(self, every_s: float) -> None:
        """Check every so often, until cancelled; never without devices or with 0."""
        while self._faults.devices and every_s > 0:
            await self.check()
            await self._clock.sleep(every_s)

    async def check(self) -> None:
        """Check once."""
        before = self._faults.faults
        reading = await asyncio.to_thread(self._read)
        self._faults = self._faults.after(reading)
        # Devices of other agents of the machine are none of this one's; what is not known now is not kept.
        self._measured({one: reading.figures[one] for one in self._faults.devices if one in reading.figures})
        after = self._faults.faults
        for device in self._faults.devices:
            if after.get(device) != before.get(device):
                state = f"has a fault, and gets no kernels: {after[device]}" if device in after else "is healthy again"
                self._log(f"device {device} {state}")
        self._report(after)
