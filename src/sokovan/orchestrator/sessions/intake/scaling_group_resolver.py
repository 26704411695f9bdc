"""Chooses the scaling group of a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import listed, quoted
from sokovan.domain.ids import DEFAULT_SCALING_GROUP
from sokovan.domain.problems import Problem
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.resource_calculator import EVERYWHERE


class ScalingGroupResolver:
    """Chooses the requested group, the only one, `default`, or one with all slots."""

    def __init__(self, groups: Sequence[ScalingGroup], pools: Mapping[str, Pool] | None = None) -> None:
        self._pools = pools or {}
        self._groups = {group.name: group for group in sorted(groups, key=lambda group: group.name)}

    def resolve(self, requested: str, slots: Iterable[ResourceSlot]) -> ScalingGroup | None:
        """The scaling group for kernels of these slots; None if there is no match."""
        groups = list(self._groups.values())
        if requested:
            return next((group for group in groups if group.name == requested), None)
        if len(groups) == 1:
            return groups[0]
        default = next((group for group in groups if group.name == DEFAULT_SCALING_GROUP), None)
        return default or next((one for one in groups if not unknown_slots(one, self._pools, slots)), None)

    def problems(self, requested: str, slots: Iterable[ResourceSlot]) -> Iterator[Problem]:
        """Problems that explain why `resolve` found no scaling group."""
        if self.resolve(requested, slots) is not None:
            return
        names = listed(self._groups, nothing="none")
        if requested:
            yield Problem("scaling_group", f"there is no scaling group {quoted(requested)}; available: {names}")
        else:
            yield Problem("scaling_group", f"no scaling group has all requested slots; available: {names}")


def available_slots(group: ScalingGroup, pools: Mapping[str, Pool]) -> tuple[str, ...]:
    """The slots of a scaling group: those it lists, else those its agents have."""
    if group.known_slots or group.name not in pools:
        return group.known_slots
    return tuple(sorted(EVERYWHERE | pools[group.name].slots))


def unknown_slots(group: ScalingGroup, pools: Mapping[str, Pool], slots: Iterable[ResourceSlot]) -> tuple[str, ...]:
    """Slots that a scaling group does not have.

    Every slot is valid for a group that lists none and has no agents. For one that lists
    none, those of its slot priority are valid even if no agent has them: the session waits.
    """
    known = {*available_slots(group, pools), *(() if group.known_slots else group.slot_priority)}
    if not group.known_slots and group.name not in pools:
        return ()
    return tuple(sorted({slot for one in slots for slot in one} - known))


def slot_problems(
    scaling_group: ScalingGroup, pools: Mapping[str, Pool], slots: ResourceSlot, *, where: str
) -> Iterator[Problem]:
    """Problems for slots that the scaling group does not have; 0 is always valid."""
    known = available_slots(scaling_group, pools)
    name = f"scaling group {scaling_group.name}"
    other_kind = {slot: text for slot in slots if slot not in known and (text := _other_kind(slot, known))}
    for slot, text in other_kind.items():
        yield Problem(f"{where}/{slot}", f"{name} {text}")
    for slot in unknown_slots(scaling_group, pools, [slots]):
        if slot in other_kind:
            continue
        there = f"{name} has" if scaling_group.known_slots else f"the agents of {name} have"
        # `cuda` usually means `cuda.device`.
        close = [one for one in known if one.startswith(f"{slot}.")] or get_close_matches(slot, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        yield Problem(f"{where}/{slot}", f"{there} {listed(known)}, not {slot}{meant}")


def _other_kind(slot: str, known: Iterable[str]) -> str:
    """The offer of devices of the other kind, whole or in shares; empty if there are none."""
    family, _, kind = slot.rpartition(".")
    whole, shares = f"{family}.device", f"{family}.shares"
    if kind == "shares" and whole in known:
        return (
            f"offers whole devices only ({whole}), no shares of them; request a whole number, or ask an administrator "
            "to start agents with --gpu-shares"
        )
    if kind == "device" and shares in known:
        return f"offers devices in shares only ({shares}); a whole one is --slot {shares}=1"
    return ""
