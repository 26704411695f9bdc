"""Resource limits of an owner: slots, sessions, kernels and priority."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int, require_limits, require_slots
from sokovan.domain.ids import checked_name
from sokovan.domain.slots import NO_LIMITS, NO_SLOTS, ResourceSlot, SlotLimits

# The limit of owners none of whose policies has one: a large gang takes much of the manager's time.
KERNELS_PER_SESSION_DEFAULT = 256
# The same for the pending sessions of a user: two of the largest arrays. Each costs rows and time in every cycle.
STORED_PENDING_DEFAULT = 20_000


# More than any count or disk, and as much as agents understand.
COUNT_MAX = 2**60


class Scope(StrEnum):
    """The kind of owner that a limit applies to."""

    KEYPAIR = auto()
    USER = auto()
    GROUP = auto()
    DOMAIN = auto()


_COUNTS = (
    "sessions_max",
    "pending_sessions_max",
    "kernels_per_session_max",
    "priority_max",
    "array_size_max",
    "stored_pending_max",
    "kernel_disk_max",
)


@dataclass(frozen=True, slots=True)
class ResourcePolicy:
    """The concurrent usage that an owner is limited to; None means no limit.

    `slots_max` limits only the slots it names: an owner limited to eight devices may use
    any amount of memory. Each kernel of the owner requests at least `slots_min`. Without
    `kernels_per_session_max` in any policy of an owner,
    KERNELS_PER_SESSION_DEFAULT applies. Of a user at most `stored_pending_max` sessions are
    pending, STORED_PENDING_DEFAULT without one; more are refused, while
    `pending_sessions_max` lets them wait. A kernel may have `kernel_disk_max` bytes on the
    disk of its agent, by default those of the server's settings.
    """

    name: str
    slots_max: SlotLimits = NO_LIMITS
    sessions_max: int | None = None
    pending_sessions_max: int | None = None
    pending_slots_max: SlotLimits = NO_LIMITS
    kernels_per_session_max: int | None = None
    priority_max: int | None = None
    array_size_max: int | None = None
    slots_min: ResourceSlot = NO_SLOTS
    stored_pending_max: int | None = None
    kernel_disk_max: int | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, what="quota")
        what = f"quota {self.name}"
        require_limits(self.slots_max, what=what, field="slots_max")
        require_limits(self.pending_slots_max, what=what, field="pending_slots_max")
        require_slots(self.slots_min, what=what, field="slots_min")
        for field in _COUNTS:
            value = getattr(self, field)
            if value is not None:
                require_int(value, what=what, field=field, least=0, most=COUNT_MAX)

    @property
    def limits_pending(self) -> bool:
        """Whether it limits the number or the slots of waiting sessions."""
        return self.pending_sessions_max is not None or bool(len(self.pending_slots_max))
