"""Devices by the driver's library."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sokovan.agent.devices.found_devices import DRIVER_LABEL, MEMORY_LABEL, MODEL_LABEL, NO_DEVICES
from sokovan.agent.devices.nvml import SOURCE, library_devices
from sokovan.domain.records import Device


def driver(*, count: int = 2, fails_at: str = "", as_bytes: bool = False) -> SimpleNamespace:
    """What the bindings of a driver answer; `fails_at` breaks one call."""

    def text(value: str) -> str | bytes:
        return value.encode() if as_bytes else value

    def fail(*_arguments: object) -> None:
        raise RuntimeError("Driver/library version mismatch")

    nvml = SimpleNamespace(closed=False)
    nvml.nvmlInit = lambda: None
    nvml.nvmlShutdown = lambda: setattr(nvml, "closed", True)
    nvml.nvmlDeviceGetCount = lambda: count
    nvml.nvmlDeviceGetHandleByIndex = lambda number: number
    nvml.nvmlDeviceGetUUID = lambda handle: text(f"GPU-{handle}")
    nvml.nvmlDeviceGetName = lambda _handle: text("NVIDIA H200")
    nvml.nvmlDeviceGetMemoryInfo = lambda _handle: SimpleNamespace(total=150 << 30)
    nvml.nvmlSystemGetDriverVersion = lambda: text("570.1")
    if fails_at:
        setattr(nvml, fails_at, fail)
    return nvml


@pytest.mark.parametrize("as_bytes", [False, True])
def test_devices_are_listed_by_their_uuid_and_described_by_labels(as_bytes: bool) -> None:
    nvml = driver(as_bytes=as_bytes)
    found = library_devices(lambda _name: nvml)

    assert found is not None
    assert found.devices == (Device("GPU-0", "cuda.device"), Device("GPU-1", "cuda.device"))
    assert found.labels == {MODEL_LABEL: "NVIDIA H200", MEMORY_LABEL: str(150 << 30), DRIVER_LABEL: "570.1"}
    assert found.source == SOURCE
    assert nvml.closed


def test_a_device_in_mig_mode_is_no_whole_device_and_older_bindings_know_none() -> None:
    nvml = driver()
    nvml.nvmlDeviceGetMigMode = lambda handle: (handle, 0)
    found = library_devices(lambda _name: nvml)
    assert found is not None
    assert (found.devices, found.partitioned) == ((Device("GPU-0", "cuda.device"),), frozenset({"GPU-1"}))
    older = library_devices(lambda _name: driver())
    assert older is not None
    assert not older.partitioned


def test_without_the_bindings_another_way_is_left() -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    assert library_devices(missing) is None


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetUUID", "nvmlShutdown"])
def test_a_driver_that_does_not_work_is_no_error(call: str) -> None:
    found = library_devices(lambda _name: driver(fails_at=call))

    assert (found is not None) == (call == "nvmlShutdown")


def test_a_driver_without_devices_has_none() -> None:
    assert library_devices(lambda _name: driver(count=0)) == NO_DEVICES
