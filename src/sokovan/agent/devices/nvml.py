"""NVIDIA devices by the driver's library, if its bindings are installed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from sokovan.agent.devices.found_devices import NO_DEVICES, FoundDevices, found_devices, nvidia_labels

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
    named = {_text(nvml.nvmlDeviceGetUUID(one)): one for one in handles}
    partitioned = [name for name, handle in named.items() if _is_partitioned(nvml, handle)]
    return found_devices(list(named), partitioned, labels=labels, source=SOURCE)


def _is_partitioned(nvml: Any, handle: Any) -> bool:
    """Whether a device is in MIG mode; older ones and older bindings do not know it."""
    with suppress(Exception):
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
        return bool(current)
    return False


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
