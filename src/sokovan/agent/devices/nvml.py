"""NVIDIA devices by the driver's library, if its bindings are installed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from sokovan.agent.devices.found_devices import NO_DEVICES, FoundDevices, nvidia_labels, whole_devices

SOURCE = "NVML"


def library_devices(load: Callable[[str], Any] = import_module) -> FoundDevices | None:
    """The devices by UUID; None if the library cannot be used."""
    try:
        nvml = load("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001  # missing package, library, driver or permission: each has its own error type
        return None
    try:
        return _listed(nvml)
    except Exception:  # noqa: BLE001  # a failing driver has no usable devices
        return None
    finally:
        with suppress(Exception):
            nvml.nvmlShutdown()


def _listed(nvml: Any) -> FoundDevices:
    handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
    if not handles:
        return NO_DEVICES
    labels = nvidia_labels(
        model=_text(nvml.nvmlDeviceGetName(handles[0])),
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handles[0]).total,
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
    )
    return FoundDevices(whole_devices([_text(nvml.nvmlDeviceGetUUID(one)) for one in handles]), labels, SOURCE)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
