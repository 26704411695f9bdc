"""Finds NVIDIA devices by what is installed.

A machine without a driver has no devices; that is never an error.
"""

from __future__ import annotations

from sokovan.agent.devices.found_devices import FoundDevices
from sokovan.agent.devices.nvidia_smi import program_devices
from sokovan.agent.devices.nvml import library_devices


def nvidia_devices() -> FoundDevices:
    """The devices by the library, else by the program."""
    found = library_devices()
    return found if found is not None else program_devices()
