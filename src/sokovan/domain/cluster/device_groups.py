"""Groups of devices that are close together, as the labels of an agent name them.

A kernel with several devices gets them from one group if there is one with room: devices
with a link of their own first, then those on one PCIe switch, then those of one NUMA node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sokovan.domain.checks import LABEL_TEXT_MAX

GROUP_PREFIX = "sokovan.gpu-group."
NVLINK, PCIE, NUMA = KINDS = ("nvlink", "pcie", "numa")
GROUPS_MAX = 24
# Devices are named by the beginning of their id: labels are short.
SHORT_MAX = 12
_SEPARATOR = ","


class DeviceGroup(NamedTuple):
    """Devices that are close together; a group of lower `rank` is closer."""

    rank: int
    name: str
    devices: frozenset[str]


def group_labels(groups: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The labels for groups of devices by name; groups that do not fit are left out."""
    labels = {
        f"{GROUP_PREFIX}{name}": _SEPARATOR.join(sorted(device[:SHORT_MAX] for device in devices))
        for name, devices in groups.items()
    }
    fitting = [(name, value) for name, value in labels.items() if len(value) <= LABEL_TEXT_MAX]
    return dict(fitting[:GROUPS_MAX])


def device_groups(labels: Mapping[str, str], devices: Sequence[str]) -> tuple[DeviceGroup, ...]:
    """The groups that labels name, the closest and smallest first."""
    named = [name for name in labels if name.startswith(GROUP_PREFIX)]
    if not named:
        return ()
    short: dict[str, list[str]] = {}
    for device in devices:
        short.setdefault(device[:SHORT_MAX], []).append(device)
    found = []
    for name in sorted(named)[:GROUPS_MAX]:
        kind = name.removeprefix(GROUP_PREFIX).rstrip("0123456789")
        rank = next((rank for rank, one in enumerate(KINDS) if kind.startswith(one)), len(KINDS))
        members = frozenset(one for part in labels[name].split(_SEPARATOR) for one in short.get(part, ()))
        found.append(DeviceGroup(rank, name, members))
    return tuple(sorted(found, key=lambda one: (one.rank, len(one.devices), one.name)))
