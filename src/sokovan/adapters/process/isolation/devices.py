"""Device nodes of the accelerators that a kernel was granted, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sokovan.domain.slots import CUDA_SHARES_SLOT, CUDA_SLOT, is_cuda
from sokovan.wire.frames import CreateKernel

# The driver's facts of each device: its UUID and the number of its node.
DRIVER = Path("/proc/driver/nvidia/gpus")
CONTROL_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_NODE = "nvidia"
NO_SLICES: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def cuda_devices(launch: CreateKernel) -> tuple[str, ...]:
    """The NVIDIA devices of a kernel: whole ones, those it shares, and slices."""
    whole = (CUDA_SLOT, CUDA_SHARES_SLOT)
    slots = (*whole, *(slot for slot in sorted(launch.devices) if is_cuda(slot) and slot not in whole))
    return tuple(device for slot in slots for device in launch.devices.get(slot, ()))


def device_nodes(
    granted: tuple[str, ...], driver: Path = DRIVER, slices: Mapping[str, tuple[str, ...]] = NO_SLICES
) -> list[str]:
    """The names in /dev of devices, given by number or UUID.

    `slices` are those of slices.
    A device that the driver does not know has none: showing all of them would give a kernel
    the devices of others.
    """
    numbers = {} if all(name.isdigit() or name in slices for name in granted) else _numbers(driver)
    found: list[str] = []
    for name in granted:
        number = name if name.isdigit() else numbers.get(name)
        found += slices.get(name, ()) if number is None else [f"{_NODE}{number}"]
    return list(dict.fromkeys(found))


def _numbers(driver: Path) -> dict[str, str]:
    """The number of each device by its UUID."""
    found: dict[str, str] = {}
    for file in sorted(driver.glob("*/information")):
        try:
            lines = file.read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        about = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        uuid, number = about.get("GPU UUID", ""), about.get("Device Minor", "")
        if uuid and number.isdigit():
            found[uuid] = number
    return found
