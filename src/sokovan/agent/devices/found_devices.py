"""The accelerators of a machine, and the labels that describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sokovan.domain.records import Device
from sokovan.domain.slots import CUDA_SLOT

# Agents that have joined may report these labels: `domain.cluster.agent_grant` lists them.
MODEL_LABEL = "nvidia.model"
MEMORY_LABEL = "nvidia.memory-bytes"
DRIVER_LABEL = "nvidia.driver"


@dataclass(frozen=True, slots=True)
class FoundDevices:
    """Devices, labels of the first one, and what named them.

    `gpus` are all devices in the driver's order, `partitioned` those in MIG mode: of these,
    `devices` has the slices, `parents` the device of each, `nodes` its names in /dev.
    """

    devices: tuple[Device, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    gpus: tuple[str, ...] = ()
    partitioned: frozenset[str] = frozenset()
    parents: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


NO_DEVICES = FoundDevices()


def nvidia_labels(*, model: str, memory_bytes: int, driver: str) -> dict[str, str]:
    """The labels of a machine with NVIDIA devices, without unknown values."""
    known = {MODEL_LABEL: model, MEMORY_LABEL: str(memory_bytes) if memory_bytes else "", DRIVER_LABEL: driver}
    return {name: value for name, value in known.items() if value}


def found_devices(
    gpus: Sequence[str], partitioned: Sequence[str], *, labels: Mapping[str, str], source: str
) -> FoundDevices:
    """Devices in the driver's order; those in MIG mode are not usable as a whole."""
    split = frozenset(partitioned)
    whole = whole_devices([one for one in gpus if one not in split])
    return FoundDevices(whole, labels, source, tuple(gpus), split)


def whole_devices(ids: Sequence[str]) -> tuple[Device, ...]:
    """Devices for exclusive use."""
    return tuple(Device(one, CUDA_SLOT) for one in ids)


def fake_devices(count: int) -> tuple[Device, ...]:
    """Simulated devices, for trying out GPU sessions without GPUs."""
    return whole_devices([f"fake-{number}" for number in range(count)])
