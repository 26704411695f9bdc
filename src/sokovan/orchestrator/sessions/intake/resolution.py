"""Where a request goes and what its kernels ask for, worked out together.

They depend on each other: the scaling group says which processor is usual, that
says which image is meant, and the image says what a kernel needs at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from sokovan.domain.cluster.image import ARCHITECTURE_DEFAULT, Image
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import listed
from sokovan.domain.problems import Problem
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.images import chosen_image
from sokovan.orchestrator.sessions.intake.kernel_groups import KernelGroup, kernel_groups
from sokovan.orchestrator.sessions.intake.resource_calculator import ResourceCalculator
from sokovan.orchestrator.sessions.intake.scaling_group_resolver import (
    ScalingGroupResolver,
    slots_there,
    unknown_slots,
)
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery, Pools


@dataclass(frozen=True, slots=True)
class ResolvedGroup:
    """A kernel group with its image and what each of its kernels asks for."""

    group: KernelGroup
    image: Image | None
    slots: ResourceSlot


@dataclass(frozen=True, slots=True)
class Resolution:
    """What was worked out, and what stood in the way."""

    scaling_group: ScalingGroup | None
    groups: tuple[ResolvedGroup, ...]
    problems: tuple[Problem, ...]


def resolved(asked: IntakeQuery, calculator: ResourceCalculator) -> Resolution:
    """The scaling group, images and slots of a request."""
    groups = kernel_groups(asked.request)
    written = [calculator.calculate(group.resources, None, where="").slots for group in groups]
    resolver = ScalingGroupResolver(asked.facts.scaling_groups, asked.facts.pools)
    scaling_group = resolver.resolve(asked.request.scaling_group, written)
    problems = list(resolver.problems(asked.request.scaling_group, written))
    found: list[ResolvedGroup] = []
    for group in groups:
        image = _image(asked, group, scaling_group)
        slots, wrong = calculator.calculate(group.resources, image, where=group.place("resources"))
        problems += wrong
        if scaling_group is not None:
            problems += _unknown(scaling_group, asked.facts.pools, slots, where=group.place("resources"))
        found.append(ResolvedGroup(group, image, slots))
    return Resolution(scaling_group, tuple(found), tuple(problems))


def _image(asked: IntakeQuery, group: KernelGroup, scaling_group: ScalingGroup | None) -> Image | None:
    pool = None if scaling_group is None else asked.facts.pools.get(scaling_group.name)
    preferred = ARCHITECTURE_DEFAULT if pool is None else pool.architecture
    known = asked.facts.images.get(group.image, ())
    return chosen_image(group.image, known, asked=asked.request.architecture, preferred=preferred)


def _unknown(scaling_group: ScalingGroup, pools: Pools, slots: ResourceSlot, *, where: str) -> Iterator[Problem]:
    """Slots that the scaling group does not know: missing is 0, unknown an error."""
    known = slots_there(scaling_group, pools)
    for slot in unknown_slots(scaling_group, pools, [slots]):
        name = f"scaling group {scaling_group.name}"
        there = f"{name} knows" if scaling_group.known_slots else f"the agents of {name} have"
        # Whoever writes `cuda` means `cuda.device`.
        close = [one for one in known if one.startswith(f"{slot}.")] or get_close_matches(slot, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        yield Problem(f"{where}/{slot}", f"{there} {listed(known)}, not {slot}{meant}")
