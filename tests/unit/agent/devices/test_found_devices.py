"""Devices and what their labels say."""

from __future__ import annotations

from sokovan.agent.devices.found_devices import (
    DRIVER_LABEL,
    MODEL_LABEL,
    NO_DEVICES,
    fake_devices,
    nvidia_labels,
    whole_devices,
)
from sokovan.domain.records import Device


def test_simulated_devices_have_names_of_their_own() -> None:
    assert fake_devices(2) == (Device("fake-0", "cuda.device"), Device("fake-1", "cuda.device"))
    assert fake_devices(0) == NO_DEVICES.devices == whole_devices([])


def test_an_unknown_value_has_no_label() -> None:
    assert nvidia_labels(model="NVIDIA GB10", memory_bytes=0, driver="580.1") == {
        MODEL_LABEL: "NVIDIA GB10",
        DRIVER_LABEL: "580.1",
    }
