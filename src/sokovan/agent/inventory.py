"""The resources an agent offers: slots, devices, architecture, labels.

A machine without a GPU driver has no devices; that is never an error.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sokovan.agent import machine
from sokovan.agent.devices.detection import nvidia_devices
from sokovan.agent.devices.found_devices import FoundDevices, fake_devices
from sokovan.agent.devices.nvidia_topology import device_closeness
from sokovan.agent.kernel_table import KernelTable
from sokovan.domain.cluster.device_groups import group_labels
from sokovan.domain.errors import InvalidSlots
from sokovan.domain.ids import AgentId, checked_name
from sokovan.domain.records import Device
from sokovan.domain.slot_notation import format_amount, parse_slots
from sokovan.domain.slots import CUDA_SHARES_SLOT, CUDA_SLOT, SHARES_PER_DEVICE, ResourceSlot

# Other names of the same architecture.
ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}

# Kernels of an agent without a limit of its own, for each cpu.
KERNELS_PER_CPU = 64

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class InventoryOptions:
    """The operator's settings of an agent; the rest is detected.

    `fake_gpus` adds simulated devices. `gpu_shares` offers every device in shares instead
    of as a whole: kernels that share one are not isolated from each other on it.
    `reserved` is kept for the machine itself. `shard` is the part of its scaling group that
    the agent belongs to.
    """

    agent_id: str = ""
    scaling_group: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    kernels_max: int | None = None
    fake_gpus: int = 0
    gpu_shares: bool = False
    reserved: Mapping[str, int] = field(default_factory=dict)
    shard: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """One machine as its agent presents it to managers.

    `identity` is generated once per agent folder: names are not unique. `process` is
    generated at each start. `images` are those that kernels can start in at once.
    """

    agent_id: AgentId
    slots: ResourceSlot
    architecture: str
    scaling_group: str = "default"
    devices: tuple[Device, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    kernels_max: int | None = None
    boot: str = ""
    identity: str = ""
    process: str = ""
    shard: str = ""
    images: tuple[str, ...] = ()


def take_inventory(
    options: InventoryOptions, *, real: FoundDevices | None = None, root: Path = machine.ROOT
) -> Inventory:
    """Detect the resources of this machine. Raises InvalidName, InvalidSlots.

    `real` are its devices, if they were detected before.
    """
    real = nvidia_devices() if real is None else real
    groups = {name: group - real.partitioned for name, group in device_closeness(real.gpus).items()}
    close = group_labels({name: group for name, group in groups.items() if len(group) > 1})
    devices = (*real.devices, *fake_devices(options.fake_gpus))
    if options.gpu_shares:
        devices = tuple(map(_shared, devices))
    found = Counter({"cpu": machine.cpu_millicores(root), "mem": machine.memory_bytes(root)})
    for device in devices:
        found[device.slot] += device.units
    left = {slot: max(0, amount - options.reserved.get(slot, 0)) for slot, amount in found.items()}
    return Inventory(
        agent_id=AgentId(checked_name(options.agent_id or agent_name(platform.node()), what="agent")),
        slots=ResourceSlot(left),
        architecture=architecture_name(platform.machine()),
        scaling_group=checked_name(options.scaling_group, what="scaling group"),
        devices=devices,
        labels={**real.labels, **close, **options.labels},
        kernels_max=options.kernels_max or kernels_default(left["cpu"]),
        boot=machine.boot_id(root),
        shard=checked_name(options.shard, what="shard") if options.shard else "",
    )


def _shared(device: Device) -> Device:
    """A device in shares; slices stay whole, the driver has divided them already."""
    return device if device.slot != CUDA_SLOT else Device(device.device_id, CUDA_SHARES_SLOT, SHARES_PER_DEVICE)


def kernels_default(millicores: int) -> int:
    """The most kernels of an agent without a limit of its own.

    Each kernel has processes of the agent beside its own, whatever slots it requests.

    >>> kernels_default(2000), kernels_default(64_000)
    (128, 4096)
    """
    return KERNELS_PER_CPU * max(1, -(-millicores // 1000))


def read_reserve(text: str, *, root: Path = machine.ROOT) -> ResourceSlot:
    """Read the amounts that are kept for this machine: `cpu=2,mem=8GiB`.

    Raises InvalidSlots, also if nothing of a slot would be left for kernels.
    """
    reserved = parse_slots(text)
    found = {"cpu": machine.cpu_millicores(root), "mem": machine.memory_bytes(root)}
    for slot, amount in reserved.items():
        if slot not in found:
            hint = "only cpu and mem are reserved, for example cpu=2,mem=8GiB"
            raise InvalidSlots(given=text, problem=f"{slot} cannot be reserved", hint=hint)
        if amount >= found[slot]:
            problem = f"the machine has only {slot}={format_amount(slot, found[slot])}"
            raise InvalidSlots(given=text, problem=problem, hint="reserve less, so that kernels have a part of it")
    return reserved


def agent_name(host: str) -> str:
    """The default name of an agent, derived from its host name.

    >>> agent_name("gpu-07.example.org")
    'gpu-07.example.org'
    >>> agent_name("")
    'agent'
    """
    return _NO_NAME.sub("-", host).strip("-._")[:64].rstrip("-._") or "agent"


def architecture_name(name: str) -> str:
    """The canonical name of a processor architecture."""
    return ARCHITECTURES.get(name.lower(), name.lower()) or "unknown"


def empty_table(inventory: Inventory) -> KernelTable:
    """The kernel table of an agent on this machine without any kernels."""
    return KernelTable(
        agent_id=inventory.agent_id,
        capacity=inventory.slots,
        device_units={device.device_id: device.units for device in inventory.devices},
        kernels_max=inventory.kernels_max,
        boot=inventory.boot,
    )
