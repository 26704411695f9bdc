"""Admission control of kernels on an agent.

A manager decides on a snapshot, the agent on what actually runs: its refusal is the
last of four guards against overcommitting a machine.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from sokovan.agent.journal_records import KernelKey
from sokovan.agent.kernel_table import LIVE, KernelTable, live_slots
from sokovan.domain.errors import InvalidSlots
from sokovan.domain.slots import ResourceSlot, total
from sokovan.wire.frames import CreateKernel


class AdmissionRefusal(NamedTuple):
    """A refusal: a code for programs and a message for people."""

    code: str
    message: str


def wrong_incarnation(table: KernelTable, incarnation: int) -> AdmissionRefusal | None:
    """Refuse a request that is meant for another incarnation."""
    if incarnation == table.incarnation and incarnation > 0:
        return None
    return AdmissionRefusal(
        "other-incarnation", f"meant for incarnation {incarnation}, this is incarnation {table.incarnation}"
    )


def superseded_attempt(table: KernelTable, key: KernelKey) -> AdmissionRefusal | None:
    """Refuse an attempt that has ended or that a later attempt has replaced."""
    if key in table.tombstones:
        return AdmissionRefusal("tombstone", f"{key} is over and will not be created again")
    latest = max(
        table.tombstones.latest(key.kernel_id), *[other.attempt for other in _attempts(table, key.kernel_id)], 0
    )
    if latest > key.attempt:
        return AdmissionRefusal("outdated-attempt", f"{key} comes after attempt {latest} of the same kernel")
    return None


def _attempts(table: KernelTable, kernel_id: str) -> list[KernelKey]:
    """The listed attempts of a kernel; an agent may list a thousand others."""
    return [key for key in table.kernels if key[0] == kernel_id]


def admission_refusal(table: KernelTable, launch: CreateKernel) -> AdmissionRefusal | None:
    """Refuse a new kernel that this agent cannot run now."""
    return (
        _not_accepting(table)
        or _attempt_live(table, launch)
        or _insufficient_slots(table, launch)
        or _unavailable_device(table, launch)
    )


def _not_accepting(table: KernelTable) -> AdmissionRefusal | None:
    if not table.observed:
        return AdmissionRefusal("not-ready", "the agent has not observed its machine yet")
    if table.obstacle:
        return AdmissionRefusal("no-room", table.obstacle)
    return None


def _attempt_live(table: KernelTable, launch: CreateKernel) -> AdmissionRefusal | None:
    for key in _attempts(table, launch.kernel_id):
        if table.kernels[key].phase in LIVE:
            return AdmissionRefusal("attempt-live", f"{key} of the same kernel has not ended")
    for key in table.orphans:
        if key != (launch.kernel_id, launch.attempt):
            return AdmissionRefusal(
                "unknown-kernels", f"{key} is an orphan here with unknown resource usage; it is being stopped"
            )
    return None


def _insufficient_slots(table: KernelTable, launch: CreateKernel) -> AdmissionRefusal | None:
    held = live_slots(table)
    count = len(held)
    if table.kernels_max is not None and count >= table.kernels_max:
        return AdmissionRefusal("no-room", f"{count} kernels run here, the limit is {table.kernels_max}")
    try:
        requested = slots_of(launch)
    except InvalidSlots as problem:
        return AdmissionRefusal("invalid-slots", problem.message)
    used, capacity = total(held), table.capacity
    # Only requested slots are checked: an adopted kernel may exceed the capacity of others.
    missing = [
        f"{slot} ({requested[slot]} requested, {used[slot]} of {capacity[slot]} in use)"
        for slot in requested
        if used[slot] + requested[slot] > capacity[slot]
    ]
    return AdmissionRefusal("no-room", f"not enough {', '.join(missing)}") if missing else None


def slots_of(launch: CreateKernel) -> ResourceSlot:
    """The requested slots; alike kernels share one object. Raises InvalidSlots."""
    return _shared_slots(tuple(launch.slots.items()))


@lru_cache(maxsize=1_000)
def _shared_slots(amounts: tuple[tuple[str, int], ...]) -> ResourceSlot:
    return ResourceSlot(dict(amounts))


def _unavailable_device(table: KernelTable, launch: CreateKernel) -> AdmissionRefusal | None:
    if not launch.devices:
        return None
    taken = Counter(device for _, kernel in table.live() for ids in kernel.devices.values() for device in ids)
    requested = [device for ids in launch.devices.values() for device in ids]
    if len(set(requested)) < len(requested):
        return AdmissionRefusal("no-room", "a device is named twice")
    for device in requested:
        if table.device_faults.get(device):
            return AdmissionRefusal("no-room", f"device {device} has a fault: {table.device_faults[device]}")
        units = table.device_units.get(device, 0)
        if taken[device] >= units:
            return AdmissionRefusal(
                "no-room", f"device {device} is in use" if units else f"device {device} does not exist here"
            )
    return None
