"""Device nodes of the accelerators that a kernel was granted, and no others."""

from __future__ import annotations

from pathlib import Path

from sokovan.domain.slots import CUDA_SHARES_SLOT, CUDA_SLOT
from sokovan.wire.frames import CreateKernel

# What the driver tells about each device: its UUID and the number of its node.
DRIVER = Path("/proc/driver/nvidia/gpus")
CONTROL_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_NODE = "nvidia"


def cuda_devices(launch: CreateKernel) -> tuple[str, ...]:
    """The NVIDIA devices of a kernel: those it has as a whole, and those it shares."""
    return (*launch.devices.get(CUDA_SLOT, ()), *launch.devices.get(CUDA_SHARES_SLOT, ()))


def device_nodes(granted: tuple[str, ...], driver: Path = DRIVER) -> list[str]:
    """The names in /dev of devices, given by number or UUID.

    A device that the driver does not know has none: showing all of them would give a kernel
    the devices of others.
    """
    numbers = {} if all(name.isdigit() for name in granted) else _numbers(driver)
    found = [name if name.isdigit() else numbers.get(name) for name in granted]
    return [f"{_NODE}{number}" for number in dict.fromkeys(found) if number is not None]


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
