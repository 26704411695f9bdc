"""Simulated figures of the devices of fake agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from zlib import crc32

from sokovan.domain.records import Device
from sokovan.ports.agent_states import DeviceFigures

MEMORY_BYTES = 80 << 30
# A working device keeps its use for this long.
STEADY_MS = 10_000
_COOL_C = 32


def simulated_figures(
    devices: tuple[Device, ...], working: Iterable[tuple[str, str]], *, now_ms: int
) -> Mapping[str, DeviceFigures]:
    """Idle devices do nothing; the use of `working` ones changes with time and kernel.

    `working` are pairs of a device and its kernel. The same arguments give the same figures.
    """
    found = _idle(devices)
    for device, kernel in working:
        if found is _idle(devices):
            found = dict(found)
        lasting = crc32(f"{kernel} {device}".encode())
        use = 55 + (lasting + crc32(f"{now_ms // STEADY_MS} {device}".encode())) % 45
        memory = MEMORY_BYTES * (30 + lasting % 65) // 100
        found[device] = DeviceFigures(use, memory, MEMORY_BYTES, _COOL_C + use // 2)
    return found


@lru_cache(maxsize=8)
def _idle(devices: tuple[Device, ...]) -> dict[str, DeviceFigures]:
    """Shared by all agents of a fleet: most of thousands do nothing."""
    return {one.device_id: DeviceFigures(0, 0, MEMORY_BYTES, _COOL_C) for one in devices}
