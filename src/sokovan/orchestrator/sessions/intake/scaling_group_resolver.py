"""Which scaling group a session goes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import listed, quoted
from sokovan.domain.problems import Problem
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.resource_calculator import EVERYWHERE

DEFAULT = "default"


class ScalingGroupResolver:
    """The one asked for; else the only one, `default`, or one that knows all slots.

    Where `default` is there, the others need not be looked at.
    """

    def __init__(self, groups: Sequence[ScalingGroup], pools: Mapping[str, Pool] | None = None) -> None:
        self._pools = pools or {}
        self._groups = {group.name: group for group in sorted(groups, key=lambda group: group.name)}

    def resolve(self, asked: str, slots: Iterable[ResourceSlot]) -> ScalingGroup | None:
        """The scaling group for kernels of these slots; None if none will do."""
        groups = list(self._groups.values())
        if asked:
            return next((group for group in groups if group.name == asked), None)
        if len(groups) == 1:
            return groups[0]
        default = next((group for group in groups if group.name == DEFAULT), None)
        return default or next((one for one in groups if not unknown_slots(one, self._pools, slots)), None)

    def problems(self, asked: str, slots: Iterable[ResourceSlot]) -> Iterator[Problem]:
        """Why none was found."""
        if self.resolve(asked, slots) is not None:
            return
        names = listed(self._groups, nothing="none at all")
        if asked:
            yield Problem("scaling_group", f"there is no scaling group {quoted(asked)}; there are {names}")
        else:
            yield Problem("scaling_group", f"none of them knows all slots that are asked for; there are {names}")


def slots_there(group: ScalingGroup, pools: Mapping[str, Pool]) -> tuple[str, ...]:
    """What there is in a scaling group: what it lists, else what its agents have."""
    if group.known_slots or group.name not in pools:
        return group.known_slots
    return tuple(sorted(EVERYWHERE | pools[group.name].slots))


def unknown_slots(group: ScalingGroup, pools: Mapping[str, Pool], slots: Iterable[ResourceSlot]) -> tuple[str, ...]:
    """Slots that a scaling group does not know; where nothing is known, all are fine.

    One that lists none also knows those that it puts in order: whoever asks for a device
    where no agent has one made no mistake, and waits for what does not fit.
    """
    known = {*slots_there(group, pools), *(() if group.known_slots else group.slot_priority)}
    if not group.known_slots and group.name not in pools:
        return ()
    return tuple(sorted({slot for one in slots for slot in one} - known))
