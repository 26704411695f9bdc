"""The accelerators of a machine: those of NVIDIA, and simulated ones.

A machine without a driver has no devices; that is never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from sokovan.domain.records import Device

CUDA_SLOT = "cuda.device"
MODEL_LABEL = "nvidia.model"
MEMORY_LABEL = "nvidia.memory-bytes"
DRIVER_LABEL = "nvidia.driver"


def fake_devices(count: int) -> tuple[Device, ...]:
    """Devices that exist in name only, to try out what needs some."""
    return tuple(Device(f"fake-{number}", CUDA_SLOT) for number in range(count))


def nvidia_devices(load: Callable[[str], Any] = import_module) -> tuple[tuple[Device, ...], dict[str, str]]:
    """The NVIDIA devices by UUID, and labels for them; nothing without NVML."""
    try:
        nvml = load("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001  # no package, no library, no driver, no permission: each has an error of its own
        return (), {}
    try:
        return _listed(nvml)
    except Exception:  # noqa: BLE001  # a driver that fails half way has no devices that could be used
        return (), {}
    finally:
        with suppress(Exception):
            nvml.nvmlShutdown()


def _listed(nvml: Any) -> tuple[tuple[Device, ...], dict[str, str]]:
    handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
    devices = tuple(Device(_text(nvml.nvmlDeviceGetUUID(handle)), CUDA_SLOT) for handle in handles)
    if not handles:
        return (), {}
    labels = {
        MODEL_LABEL: _text(nvml.nvmlDeviceGetName(handles[0])),
        MEMORY_LABEL: str(nvml.nvmlDeviceGetMemoryInfo(handles[0]).total),
        DRIVER_LABEL: _text(nvml.nvmlSystemGetDriverVersion()),
    }
    return devices, labels


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
