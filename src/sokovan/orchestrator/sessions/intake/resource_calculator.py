"""Computes the slots of a kernel from its request, its image and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sokovan.domain.cluster.image import Image
from sokovan.domain.errors import InvalidSlots
from sokovan.domain.problems import Problem, problem_text
from sokovan.domain.session_request import Amount, SessionRequest
from sokovan.domain.slot_notation import format_amount, parse_amount
from sokovan.domain.slots import AMOUNT_MAX, MIG_PREFIX, NO_SLOTS, ResourceSlot, is_cuda

CPU, MEMORY = "cpu", "mem"
# Amounts of slots that neither the request nor the image names; of memory, the least default.
DEFAULTS = ResourceSlot({CPU: 1000, MEMORY: 256 << 20})
ALIASES: Mapping[str, str] = {"gpu": "cuda.device", "gpus": "cuda.device", "memory": MEMORY}
# Every agent has these slots.
EVERYWHERE = frozenset(DEFAULTS)
# Less is no limit in practice: thousands of such kernels would fit on one agent.
CPU_LEAST = 10
MEMORY_LEAST = 1 << 20
# Shared memory is charged to the kernel, so it is added to `mem`.
SHARED_MEMORY = "shm"


class Minimum(NamedTuple):
    """The least slots of a kernel, and the image or owner that sets them."""

    whose: str
    slots: ResourceSlot


class Calculation(NamedTuple):
    """The slots of one kernel, and the problems found in its request."""

    slots: ResourceSlot
    problems: tuple[Problem, ...] = ()


class ResourceCalculator:
    """Parses requested amounts and fills in defaults.

    A slot that is not named is taken from the image's minimum, else from the defaults, and is
    never below a minimum of a policy; a slot of 0 stays 0. No cpu or no memory is for
    best-effort kernels only, which have no slot at all: such a kernel has no limit either.
    `gpu` means `cuda.device`, `memory` means `mem`. `shm` is shared memory, added to `mem`;
    if not given, it is part of `mem`, as it is of a default.
    """

    def __init__(self, defaults: ResourceSlot = DEFAULTS) -> None:
        self._defaults = defaults

    def calculate(
        self,
        resources: Mapping[str, Amount],
        image: Image | None,
        *,
        where: str,
        memory: Callable[[Mapping[str, int]], int] | None = None,
        minimums: Sequence[Minimum] = (),
    ) -> Calculation:
        """The slots of a kernel of this image; `where` is the path of the resources.

        `memory` gives the default memory of a kernel with these other slots. `minimums` are
        those of the owner's policies.
        """
        written, problems = _read(resources, where=where)
        least = _largest(NO_SLOTS if image is None else image.slots_min, minimums)
        base = self._defaults if image is None else ResourceSlot({**self._defaults, **image.slots_min})
        amounts: dict[str, int] = {**_largest(base, minimums), **written}
        shared = amounts.pop(SHARED_MEMORY, 0)
        if memory is not None and MEMORY not in written:
            default = memory(amounts)
            amounts[MEMORY] = max(least[MEMORY], min(default, self._defaults[MEMORY]), default - shared)
        every = (*minimums, *(() if image is None else (Minimum(f"image {image.name}", image.slots_min),)))
        problems += [problem for one in every for problem in _below(one, amounts, where=where)]
        amounts[MEMORY] = amounts.get(MEMORY, 0) + shared
        problems += _missing(amounts, where=where)
        problems += _mixed(amounts, where=where)
        if amounts[MEMORY] > AMOUNT_MAX:
            problems.append(Problem(f"{where}/{SHARED_MEMORY}", "exceeds the limit, together with mem"))
            amounts[MEMORY] = AMOUNT_MAX
        return Calculation(ResourceSlot(amounts), tuple(problems))


def named_slots(request: SessionRequest) -> frozenset[str]:
    """The slots that a request names, except those that every agent has."""
    named = {*request.resources, *(name for group in request.groups for name in group.resources or ())}
    return frozenset(ALIASES.get(name, name) for name in named) - EVERYWHERE - {SHARED_MEMORY}


def _read(resources: Mapping[str, Amount], *, where: str) -> tuple[dict[str, int], list[Problem]]:
    """Amounts by slot, and a problem for each amount that cannot be parsed."""
    amounts: dict[str, int] = {}
    problems: list[Problem] = []
    for name, amount in resources.items():
        slot, place = ALIASES.get(name, name), f"{where}/{name}"
        if slot in amounts:
            problems.append(Problem(place, f"is another name for {slot}, which is given as well"))
            continue
        try:
            # Shared memory is no slot; its amount is parsed like memory.
            amounts[slot] = parse_amount(MEMORY if slot == SHARED_MEMORY else slot, amount)
        except InvalidSlots as error:
            problems.append(Problem(place, problem_text(error)))
    return amounts, problems


def _mixed(amounts: Mapping[str, int], *, where: str) -> list[Problem]:
    """A problem for slices of devices beside whole ones, or beside slices of another profile."""
    cuda = sorted(slot for slot, amount in amounts.items() if amount and is_cuda(slot))
    slices = [slot for slot in cuda if slot.startswith(MIG_PREFIX)]
    if not slices or len(cuda) < 2:
        return []
    other = next(slot for slot in cuda if slot != slices[0])
    text = f"a kernel cannot have {other} beside it: CUDA uses whole devices or slices of one profile, not both"
    return [Problem(f"{where}/{slices[0]}", text)]


def _missing(amounts: Mapping[str, int], *, where: str) -> list[Problem]:
    """Problems for too little cpu or memory, unless the kernel is a best-effort one."""
    if not any(amounts.values()):
        return []
    text = "0 is too little; omit it for the default (a best-effort kernel requests 0 of everything)"
    problems = [Problem(f"{where}/{slot}", text) for slot in DEFAULTS if amounts.get(slot) == 0]
    if 0 < amounts.get(CPU, 0) < CPU_LEAST:
        problems.append(Problem(f"{where}/{CPU}", f"a kernel has at least {format_amount(CPU, CPU_LEAST)}"))
    memory = amounts.get(MEMORY, 0)
    if 0 < memory < MEMORY_LEAST:
        # No program starts with so little; a number without a unit is bytes.
        given = f"{memory} bytes of memory start no program; write a unit, such as {memory}GiB"
        problems.append(Problem(f"{where}/{MEMORY}", given))
    return problems


def _largest(least: ResourceSlot, minimums: Sequence[Minimum]) -> ResourceSlot:
    """The largest of these minimums, slot by slot."""
    amounts = dict(least)
    for one in minimums:
        amounts.update({slot: max(amounts.get(slot, 0), amount) for slot, amount in one.slots.items()})
    return ResourceSlot(amounts)


def _below(minimum: Minimum, amounts: Mapping[str, int], *, where: str) -> list[Problem]:
    """Problems for amounts below a minimum."""
    found = []
    for slot, least in minimum.slots.items():
        requested = amounts.get(slot, 0)
        if requested < least:
            needs = f"{minimum.whose} needs {format_amount(slot, least)}"
            found.append(Problem(f"{where}/{slot}", f"{needs}, {format_amount(slot, requested)} is requested"))
    return found
