"""What an agent has to give: slots, devices, architecture, labels."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sokovan.agent import machine
from sokovan.agent.devices import fake_devices, nvidia_devices
from sokovan.agent.kernel_table import KernelTable
from sokovan.domain.ids import AgentId, checked_name
from sokovan.domain.records import Device
from sokovan.domain.slots import ResourceSlot

# What people call the same processor.
ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class InventoryOptions:
    """What an operator says of a machine; the rest is found out.

    `fake_gpus` adds simulated devices. `reserved` is kept for the machine itself.
    """

    agent_id: str = ""
    scaling_group: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    kernels_max: int | None = None
    fake_gpus: int = 0
    reserved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """One machine as its agent presents it.

    `identity` is made once in the agent's folder: a name may be given twice.
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


def take_inventory(wish: InventoryOptions, *, root: Path = machine.ROOT) -> Inventory:
    """This machine, as far as it is ours. Raises InvalidName, InvalidSlots."""
    real, found_labels = nvidia_devices()
    devices = (*real, *fake_devices(wish.fake_gpus))
    found = Counter({"cpu": machine.cpu_millicores(root), "mem": machine.memory_bytes(root)})
    for device in devices:
        found[device.slot] += device.units
    left = {slot: max(0, amount - wish.reserved.get(slot, 0)) for slot, amount in found.items()}
    return Inventory(
        agent_id=AgentId(checked_name(wish.agent_id or agent_name(platform.node()), what="agent")),
        slots=ResourceSlot(left),
        architecture=architecture_name(platform.machine()),
        scaling_group=checked_name(wish.scaling_group, what="scaling group"),
        devices=devices,
        labels={**found_labels, **wish.labels},
        kernels_max=wish.kernels_max,
        boot=machine.boot_id(root),
    )


def agent_name(host: str) -> str:
    """The name of an agent that nobody named: after its host.

    >>> agent_name("gpu-07.example.org")
    'gpu-07.example.org'
    >>> agent_name("")
    'agent'
    """
    return _NO_NAME.sub("-", host).strip("-._")[:64].rstrip("-._") or "agent"


def architecture_name(name: str) -> str:
    """One name for each kind of processor, whatever the system calls it."""
    return ARCHITECTURES.get(name.lower(), name.lower()) or "unknown"


def empty_holdings(inventory: Inventory) -> KernelTable:
    """The state of an agent on this machine that has never run anything."""
    return KernelTable(
        agent_id=inventory.agent_id,
        capacity=inventory.slots,
        device_units={device.device_id: device.units for device in inventory.devices},
        kernels_max=inventory.kernels_max,
        boot=inventory.boot,
    )
