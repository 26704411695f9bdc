"""Finds NVIDIA devices by what is installed.

A machine without a driver has no devices; that is never an error.
"""

from __future__ import annotations

from sokovan.agent.devices.found_devices import FoundDevices
from sokovan.agent.devices.mig_slices import with_slices
from sokovan.agent.devices.nvidia_smi import program_devices
from sokovan.agent.devices.nvml import library_devices


def nvidia_devices() -> FoundDevices:
    """The devices by the library, else by the program; those in MIG mode as slices."""
    by_library = library_devices()
    found = by_library if by_library is not None else program_devices()
    return with_slices(found) if found.partitioned else found
