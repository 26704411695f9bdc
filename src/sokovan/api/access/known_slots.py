"""Rejects limits on slots that no scaling group has: they would never apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import nearest
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.orchestrator.sessions.intake.resource_calculator import ALIASES, EVERYWHERE
from sokovan.ports.storage import UnitOfWork

# The fields that name slots.
_FIELDS: Mapping[type, tuple[str, ...]] = {
    ResourcePolicy: ("slots_max", "pending_slots_max", "slots_min"),
    Queue: ("capability", "deserved", "guarantee"),
    Image: ("slots_min",),
    ScalingGroup: ("slot_weights",),
}


async def permit_known_slots(
    unit: UnitOfWork, _principal: AuthenticatedPrincipal, item: Any | None, before: Any | None
) -> None:
    """Reject slots that no scaling group has, except those stored before.

    Raises InvalidRequest.
    """
    if item is None:
        return
    await _refuse_misspelt(unit, item, before)
    named = [(field, slot) for field in _FIELDS[type(item)] for slot in _new_slots(item, before, field)]
    if not named:
        return
    known = await _known_slots(unit, item)
    problems = [Problem(f"{field}/{slot}", _unknown(slot, known)) for field, slot in named if slot not in known]
    if problems:
        raise InvalidRequest(problems)


async def _refuse_misspelt(unit: UnitOfWork, item: Any, before: Any | None) -> None:
    """Refuse listed slots of a scaling group that resemble known ones.

    Others are allowed: the agents that have them may come later.
    """
    if not isinstance(item, ScalingGroup):
        return
    known = await _known_slots(unit, None)
    problems = [
        Problem(f"{field}/{slot}", f"no agent has this slot; did you mean {close[0]}?")
        for field in ("known_slots", "slot_priority")
        for slot in _new_slots(item, before, field)
        if slot not in known and (close := get_close_matches(slot, known, n=1, cutoff=0.85))
    ]
    if problems:
        raise InvalidRequest(problems)


def _new_slots(item: Any, before: Any | None, field: str) -> Iterator[str]:
    # The slot of a pool that was removed since must not prevent other changes.
    stored = () if before is None else getattr(before, field)
    return (slot for slot in getattr(item, field) if slot not in stored)


async def _known_slots(unit: UnitOfWork, item: Any) -> frozenset[str]:
    """The slots that scaling groups list or prefer, and those of their agents."""
    groups = [*await unit.catalog.all(ScalingGroup), *([item] if isinstance(item, ScalingGroup) else [])]
    listed = [slot for group in groups for slot in (*group.known_slots, *group.slot_priority)]
    profiles = await unit.fleet.profiles()
    return EVERYWHERE.union(listed, *(profile.slots for profile in profiles.values()))


def _unknown(slot: str, known: frozenset[str]) -> str:
    advice = f"did you mean {ALIASES[slot]}?" if slot in ALIASES else nearest(slot, known)
    return f"no scaling group has this slot; {advice}"
