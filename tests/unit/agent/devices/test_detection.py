"""Which part of a driver names the devices."""

from __future__ import annotations

import pytest

from sokovan.agent.devices import detection
from sokovan.agent.devices.detection import nvidia_devices
from sokovan.agent.devices.found_devices import NO_DEVICES, FoundDevices, found_devices, whole_devices
from sokovan.domain.records import Device

BY_LIBRARY = FoundDevices(whole_devices(["GPU-a"]), {}, "NVML")
BY_PROGRAM = FoundDevices(whole_devices(["GPU-b"]), {}, "nvidia-smi")


def test_devices_in_mig_mode_are_replaced_by_their_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    split = found_devices(["GPU-a"], ["GPU-a"], labels={}, source="NVML")
    sliced = FoundDevices((Device("MIG-a", "cuda.mig-1g.10gb.device"),))
    monkeypatch.setattr(detection, "library_devices", lambda: split)
    monkeypatch.setattr(detection, "with_slices", lambda found: sliced if found == split else found)
    assert nvidia_devices() == sliced


@pytest.mark.parametrize(
    ("by_library", "expected"), [(BY_LIBRARY, BY_LIBRARY), (NO_DEVICES, NO_DEVICES), (None, BY_PROGRAM)]
)
def test_the_program_is_used_where_the_library_cannot_be(
    monkeypatch: pytest.MonkeyPatch, by_library: FoundDevices | None, expected: FoundDevices
) -> None:
    monkeypatch.setattr(detection, "library_devices", lambda: by_library)
    monkeypatch.setattr(detection, "program_devices", lambda: BY_PROGRAM)
    assert nvidia_devices() == expected
