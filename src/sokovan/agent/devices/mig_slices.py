"""Slices of NVIDIA devices in MIG mode, by the program that every driver has.

`nvidia-smi -L` names the slices below their device; `nvidia-smi -q -x` says which instances
they are, and so which device nodes belong to them. A device in MIG mode cannot be used as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from sokovan.agent.devices.device_faults import LOST, DeviceReading
from sokovan.agent.devices.found_devices import FoundDevices
from sokovan.agent.devices.nvidia_health import NvidiaHealth
from sokovan.agent.devices.nvidia_smi import DEVICES_MAX, printed
from sokovan.domain.errors import InvalidSlots
from sokovan.domain.ids import is_name
from sokovan.domain.records import Device
from sokovan.domain.slots import mig_slot

# The driver's facts of the nodes of instances.
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
_DEVICE = re.compile(r"GPU \d+: .*\(UUID: (GPU-[^)\s]+)\)")
_SLICE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)\s]+)\)")
_NODE_NUMBER = re.compile(r"^DeviceFileMinor:\s*(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A slice, the device it is a part of, and its number there."""

    device_id: str
    slot: str
    parent: str
    number: int


class _Instance(NamedTuple):
    """The numbers of a slice in the driver: of its device, GPU and compute instance."""

    device: str
    gpu_instance: str
    compute_instance: str


def with_slices(found: FoundDevices, path: str | None = None, capabilities: Path = CAPABILITIES) -> FoundDevices:
    """Add the slices of devices in MIG mode. `path` replaces PATH."""
    slices = [one for one in listed_slices(path) if one.parent in found.partitioned]
    nodes = {
        one.device_id: _nodes(instances[one.number], capabilities)
        for parent in dict.fromkeys(one.parent for one in slices)
        for instances in [_instances(parent, path)]
        for one in slices
        if one.parent == parent and one.number in instances
    }
    return replace(
        found,
        devices=(*found.devices, *(Device(one.device_id, one.slot) for one in slices)),
        parents={one.device_id: one.parent for one in slices},
        nodes=nodes,
    )


def listed_slices(path: str | None = None) -> list[MigSlice]:
    """The slices of all devices; none if the program is missing or fails."""
    done = printed(("-L",), path)
    return [] if done is None or done.problem else read_listing(done.text)


def read_listing(text: str) -> list[MigSlice]:
    """Read the listing; lines of another form are left out."""
    found: dict[str, MigSlice] = {}
    parent = ""
    for line in text.splitlines():
        if device := _DEVICE.match(line):
            parent = device[1]
        elif (part := _SLICE.match(line)) and parent and is_name(part[3]):
            with suppress(InvalidSlots):
                found.setdefault(part[3], MigSlice(part[3], mig_slot(part[1]), parent, int(part[2])))
    return list(found.values())[:DEVICES_MAX]


@dataclass(frozen=True, slots=True)
class SliceHealth:
    """Reads the faults of devices and slices; `parents` are the devices of slices."""

    parents: Mapping[str, str]
    whole: Callable[[], DeviceReading] = field(default_factory=lambda: NvidiaHealth().read)
    path: str | None = None

    def read(self) -> DeviceReading:
        """Read once."""
        reading = self.whole()
        return with_slice_faults(reading, self.parents, listed_slices(self.path)) if self.parents else reading


def with_slice_faults(reading: DeviceReading, parents: Mapping[str, str], listed: Sequence[MigSlice]) -> DeviceReading:
    """Add the faults of slices: those of their devices, and that a slice is gone."""
    if reading.failure:
        return reading
    there = {one.device_id for one in listed}
    of_slices = {
        one: reading.listed.get(parent, LOST) or ("" if one in there else LOST) for one, parent in parents.items()
    }
    return replace(reading, listed={**reading.listed, **of_slices})


def _instances(device: str, path: str | None) -> dict[int, _Instance]:
    """The instances of a device, by the numbers of their slices."""
    done = printed(("-q", "-x", "-i", device), path)
    return {} if done is None or done.problem else read_instances(done.text, device)


def read_instances(text: str, device: str) -> dict[int, _Instance]:
    """Read the description of a device; one of another form has no instances."""
    try:
        root = ET.fromstring(text)  # noqa: S314  # written by the driver's program; the parser reads no other files
    except ET.ParseError:
        return {}
    return dict(_described(root, device))


def _described(root: ET.Element, device: str) -> Iterator[tuple[int, _Instance]]:
    for gpu in root.iter("gpu"):
        if gpu.findtext("uuid") != device:
            continue
        for one in gpu.iter("mig_device"):
            names = ("index", "gpu_instance_id", "compute_instance_id")
            number, *parts = (one.findtext(name, "") for name in names)
            every = (gpu.findtext("minor_number", ""), *parts)
            if number.isdecimal() and all(part.isdecimal() for part in every):
                yield int(number), _Instance(*every)


def _nodes(instance: _Instance, capabilities: Path) -> tuple[str, ...]:
    """The names in /dev that a kernel of this slice needs; none if one is not known."""
    gpu = capabilities / f"gpu{instance.device}" / "mig" / f"gi{instance.gpu_instance}"
    numbers = []
    for file in (gpu / "access", gpu / f"ci{instance.compute_instance}" / "access"):
        with suppress(OSError):
            numbers += _NODE_NUMBER.findall(file.read_text(encoding="ascii", errors="replace"))
    caps = [f"nvidia-caps/nvidia-cap{number}" for number in numbers]
    return (f"nvidia{instance.device}", *caps) if len(caps) == 2 else ()
