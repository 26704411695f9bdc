"""Whether a kernel may start here, whatever the manager believes.

A manager decides on what it knows; the agent knows what runs. Its refusal is the last
of four guards against using a machine twice.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from sokovan.agent.journal_records import KernelKey
from sokovan.agent.kernel_table import LIVE, KernelTable, used_slots
from sokovan.domain.errors import InvalidSlots
from sokovan.domain.slots import ResourceSlot
from sokovan.wire.frames import CreateKernel


class AdmissionRefusal(NamedTuple):
    """Why not: a word for programs, and words for people."""

    code: str
    message: str


def wrong_incarnation(holdings: KernelTable, incarnation: int) -> AdmissionRefusal | None:
    """A refusal of what is meant for another incarnation."""
    if incarnation == holdings.incarnation and incarnation > 0:
        return None
    return AdmissionRefusal(
        "other-incarnation", f"meant for incarnation {incarnation}, this is incarnation {holdings.incarnation}"
    )


def outlived(holdings: KernelTable, key: KernelKey) -> AdmissionRefusal | None:
    """A refusal of an attempt that is over, or that a later one has replaced."""
    if key in holdings.tombstones:
        return AdmissionRefusal("tombstone", f"{key} is over and will not be created again")
    listed = (other.attempt for other in holdings.kernels if other.kernel_id == key.kernel_id)
    latest = max(holdings.tombstones.latest(key.kernel_id), *listed, 0)
    if latest > key.attempt:
        return AdmissionRefusal("outdated-attempt", f"{key} comes after attempt {latest} of the same kernel")
    return None


def not_admitted(holdings: KernelTable, launch: CreateKernel) -> AdmissionRefusal | None:
    """A refusal of a kernel that is new here."""
    return _closed(holdings) or _twin(holdings, launch) or _no_room(holdings, launch) or _no_device(holdings, launch)


def _closed(holdings: KernelTable) -> AdmissionRefusal | None:
    if not holdings.seen:
        return AdmissionRefusal("not-ready", "the agent has not looked at its machine yet")
    if holdings.obstacle:
        return AdmissionRefusal("no-room", holdings.obstacle)
    return None


def _twin(holdings: KernelTable, launch: CreateKernel) -> AdmissionRefusal | None:
    for key, held in holdings.kernels.items():
        if key.kernel_id == launch.kernel_id and held.phase in LIVE:
            return AdmissionRefusal("attempt-live", f"{key} of the same kernel is not over")
    for key in holdings.strangers:
        if key != (launch.kernel_id, launch.attempt):
            return AdmissionRefusal(
                "unknown-kernels", f"{key} runs here and nobody knows what it takes; it is being stopped"
            )
    return None


def _no_room(holdings: KernelTable, launch: CreateKernel) -> AdmissionRefusal | None:
    count = sum(1 for _ in holdings.live())
    if holdings.kernels_max is not None and count >= holdings.kernels_max:
        return AdmissionRefusal("no-room", f"{count} kernels run here, {holdings.kernels_max} may")
    try:
        asked = ResourceSlot(launch.slots)
    except InvalidSlots as problem:
        return AdmissionRefusal("invalid-slots", problem.message)
    used, capacity = used_slots(holdings), holdings.capacity
    # Only what is asked for counts: a kernel that was adopted may take more than there is, and that is no reason to
    # refuse one that wants nothing of the kind.
    missing = [
        f"{slot} ({asked[slot]} asked for, {used[slot]} of {capacity[slot]} in use)"
        for slot in asked
        if used[slot] + asked[slot] > capacity[slot]
    ]
    return AdmissionRefusal("no-room", f"not enough {', '.join(missing)}") if missing else None


def _no_device(holdings: KernelTable, launch: CreateKernel) -> AdmissionRefusal | None:
    taken = Counter(device for _, held in holdings.live() for ids in held.devices.values() for device in ids)
    asked = [device for ids in launch.devices.values() for device in ids]
    if len(set(asked)) < len(asked):
        return AdmissionRefusal("no-room", "a device is named twice")
    for device in asked:
        units = holdings.device_units.get(device, 0)
        if taken[device] >= units:
            return AdmissionRefusal(
                "no-room", f"device {device} is in use" if units else f"there is no device {device} here"
            )
    return None
