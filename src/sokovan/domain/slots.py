"""Resource amounts: named slots with integer amounts.

Every amount is an integer in the smallest unit of its slot: cpu in millicores, memory in
bytes, devices as a count, shares in thousandths. `slot_notation` parses and formats them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping

from sokovan.domain.errors import InvalidSlots, SlotUnderflow, quoted

# Amounts are stored as int64, and a cluster's total sums thousands of agents: 2**53 leaves room for that.
AMOUNT_MAX = 2**53
UNLIMITED = 2**62
NAME_MAX = 64
CUDA_SLOT = "cuda.device"
CUDA_SHARES_SLOT = "cuda.shares"
# The units of a device that is offered in shares.
SHARES_PER_DEVICE = 1000

# Slices of a device (MIG) are a slot for each profile, such as cuda.mig-1g.10gb.device.
MIG_PREFIX = "cuda.mig-"

_PROFILE_SEPARATORS = re.compile(r"[^a-z0-9.]+")
_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*", re.ASCII)


class ResourceSlot(Mapping[str, int]):
    """An immutable vector of slot amounts; a missing slot is 0.

    Zero amounts are not kept, so that two vectors are equal exactly when they
    hold the same amounts.

    >>> ResourceSlot({"cpu": 2000}) + ResourceSlot({"cpu": 500, "mem": 1024})
    ResourceSlot(cpu=2500, mem=1024)
    >>> ResourceSlot({"cpu": 2000})["mem"]
    0
    """

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        checked = {slot: _checked(slot, amount) for slot, amount in (amounts or {}).items()}
        self._amounts = {slot: checked[slot] for slot in sorted(checked) if checked[slot]}
        self._hash: int | None = None

    @classmethod
    def _trusted(cls, amounts: dict[str, int]) -> ResourceSlot:
        """Amounts computed from checked ones, not checked again for speed."""
        slots = cls.__new__(cls)
        slots._amounts = {slot: amounts[slot] for slot in sorted(amounts) if amounts[slot]}
        slots._hash = None
        return slots

    def __getitem__(self, slot: str) -> int:
        return self._amounts.get(slot, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __contains__(self, slot: object) -> bool:
        return slot in self._amounts

    def row(self, slots: Iterable[str]) -> list[int]:
        """The amounts of these slots, in their order."""
        get = self._amounts.get
        return [get(slot, 0) for slot in slots]

    def items(self) -> ItemsView[str, int]:
        """Slots and their amounts, by name."""
        return self._amounts.items()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceSlot) and self._amounts == other._amounts

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"ResourceSlot({', '.join(f'{slot}={amount}' for slot, amount in self.items())})"

    def __add__(self, other: ResourceSlot) -> ResourceSlot:
        return ResourceSlot._trusted({slot: self[slot] + other[slot] for slot in self._amounts | other._amounts})

    def __sub__(self, other: ResourceSlot) -> ResourceSlot:
        """The difference. Raises SlotUnderflow if an amount would be negative."""
        for slot, amount in other.items():
            if amount > self[slot]:
                raise SlotUnderflow(slot=slot, have=self[slot], taken=amount)
        return ResourceSlot._trusted({slot: amount - other[slot] for slot, amount in self.items()})

    def __mul__(self, times: int) -> ResourceSlot:
        if not isinstance(times, int) or times < 0:
            raise InvalidSlots(given=times, problem="slots are multiplied by whole numbers from 0 on")
        return ResourceSlot._trusted({slot: amount * times for slot, amount in self.items()})

    def fits(self, room: ResourceSlot) -> bool:
        """Whether every amount is available in `room`."""
        return all(amount <= room[slot] for slot, amount in self.items())

    def shortfall(self, room: ResourceSlot) -> ResourceSlot:
        """How much of each slot is missing in `room`; empty exactly when it fits."""
        return ResourceSlot._trusted({slot: max(0, amount - room[slot]) for slot, amount in self.items()})


NO_SLOTS = ResourceSlot()


class SlotLimits(Mapping[str, int]):
    """Upper bounds by slot. A slot that is not named is not limited; 0 is a limit.

    >>> SlotLimits({"cpu": 4000, "gpu": 0}).exceeded_by(ResourceSlot({"cpu": 5000, "mem": 1, "gpu": 1}))
    ResourceSlot(cpu=1000, gpu=1)
    """

    __slots__ = ("_limits",)

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        checked = {slot: _checked(slot, limit) for slot, limit in (limits or {}).items()}
        self._limits = {slot: checked[slot] for slot in sorted(checked)}

    def __getitem__(self, slot: str) -> int:
        """The limit of a slot; UNLIMITED if none is set."""
        return self._limits.get(slot, UNLIMITED)

    def __iter__(self) -> Iterator[str]:
        return iter(self._limits)

    def __len__(self) -> int:
        return len(self._limits)

    def __contains__(self, slot: object) -> bool:
        return slot in self._limits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotLimits) and self._limits == other._limits

    def __hash__(self) -> int:
        return hash(tuple(self._limits.items()))

    def __repr__(self) -> str:
        return f"SlotLimits({', '.join(f'{slot}={limit}' for slot, limit in self.items())})"

    def exceeded_by(self, used: ResourceSlot) -> ResourceSlot:
        """How far `used` exceeds each limit; empty exactly when it exceeds none."""
        return ResourceSlot({slot: max(0, used[slot] - limit) for slot, limit in self.items()})


NO_LIMITS = SlotLimits()


def devices_in_thousandths(slots: Mapping[str, int]) -> int:
    """The accelerators among slots, whole ones or shares, in thousandths.

    >>> devices_in_thousandths({"cpu": 4000, "cuda.device": 2}), devices_in_thousandths({"cuda.shares": 250})
    (2000, 250)
    """
    for slot in sorted(slots):
        if slot.endswith(".device"):
            return slots[slot] * SHARES_PER_DEVICE
    return next((slots[slot] for slot in sorted(slots) if slot.endswith(".shares")), 0)


def total(parts: Iterable[ResourceSlot]) -> ResourceSlot:
    """The sum of all parts."""
    given = list(parts)
    if len(given) == 1:  # most sessions have one kernel
        return given[0]
    keys = list(map(id, given))
    # Alike kernels share one object, which is read once.
    distinct = dict(zip(keys, given, strict=True))
    times = Counter(keys) if len(distinct) < len(given) else dict.fromkeys(distinct, 1)
    amounts: dict[str, int] = {}
    for key, part in distinct.items():
        for slot, amount in part.items():
            amounts[slot] = amounts.get(slot, 0) + amount * times[key]
    return ResourceSlot._trusted(amounts)


def is_accelerator(slot: str) -> bool:
    """Whether a slot is an accelerator device or a share of one."""
    return slot.endswith((".device", ".shares"))


def is_cuda(slot: str) -> bool:
    """Whether a slot is NVIDIA devices, shares or slices of them."""
    return slot.startswith("cuda.") and is_accelerator(slot)


def mig_slot(profile: str) -> str:
    """The slot of slices of this profile. Raises InvalidSlots.

    >>> mig_slot("1g.10gb"), mig_slot("1g.10gb+me")
    ('cuda.mig-1g.10gb.device', 'cuda.mig-1g.10gb-me.device')
    """
    name = f"{MIG_PREFIX}{_PROFILE_SEPARATORS.sub('-', profile.lower())}.device"
    return checked_slot_name(name, given=profile)


def checked_slot_name(name: object, *, given: object) -> str:
    """Return `name` if it is a valid slot name. Raises InvalidSlots quoting `given`."""
    if isinstance(name, str) and len(name) <= NAME_MAX and _NAME.fullmatch(name):
        return name
    raise InvalidSlots(
        given=given,
        problem=f"{quoted(name)} is not a slot name",
        hint=f"slot names are lower case, for example cpu, mem, cuda.device (at most {NAME_MAX} characters)",
    )


def _checked(slot: object, amount: object) -> int:
    given = {slot: amount}
    name = checked_slot_name(slot, given=given)
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise InvalidSlots(given=given, problem=f"the amount of {name} is not a whole number")
    if amount < 0:
        raise InvalidSlots(given=given, problem=f"the amount of {name} is below zero")
    return amount


def needs_master_port(kernels: Collection[ResourceSlot]) -> bool:
    """Whether a session gets a port to meet at, by the slots of its kernels.

    Several kernels meet there, and so do the processes of one kernel with accelerators. Others
    do not need it, and a lease would be one more row to write for each of many short sessions.
    """
    return len(kernels) > 1 or any(is_accelerator(slot) for slots in kernels for slot in slots)
