"""Scaling groups: pools of agents that are scheduled together, by one policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.checks import require_int, require_tuple
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import ScalingGroupName, checked_name
from sokovan.domain.owners.past_usage import HALF_LIFE_DEFAULT_S, HALF_LIFE_MAX_S, SLOT_WEIGHT_MAX
from sokovan.domain.slots import AMOUNT_MAX, checked_slot_name

SLOT_PRIORITY_DEFAULT = ("cuda.device", "cuda.shares", "rocm.device", "tpu.device", "cpu", "mem")


@dataclass(frozen=True, slots=True)
class ScalingGroup:
    """A pool of agents with the names of its scheduling plugins.

    An empty `known_slots` means the slots that its agents have, and those of
    `slot_priority`. The plugin registry checks that the named plugins exist. A kernel that
    requests no memory gets `mem_per_gpu_bytes` per accelerator, else `mem_per_cpu_bytes`
    per cpu; None means its share of an agent's memory. Past usage halves in
    `usage_half_life_s`; `slot_weights` say how much one core, GiB or device of a slot
    counts in it.
    """

    name: ScalingGroupName
    scheduler: str = "fifo"
    scheduler_opts: Mapping[str, object] = field(default_factory=dict)
    known_slots: tuple[str, ...] = ()
    slot_priority: tuple[str, ...] = SLOT_PRIORITY_DEFAULT
    pending_timeout_s: int | None = None
    usage_half_life_s: int = HALF_LIFE_DEFAULT_S
    slot_weights: Mapping[str, int] = field(default_factory=dict)
    mem_per_gpu_bytes: int | None = None
    mem_per_cpu_bytes: int | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, what="scaling group")
        what = f"scaling group {self.name}"
        checked_name(self.scheduler, what="scheduler")
        if not isinstance(self.scheduler_opts, Mapping):
            raise InvalidSpec(what=what, field="scheduler_opts", value=self.scheduler_opts, problem="must be a mapping")
        require_tuple(self.known_slots, str, what=what, field="known_slots")
        require_tuple(self.slot_priority, str, what=what, field="slot_priority")
        for slot in (*self.known_slots, *self.slot_priority):
            checked_slot_name(slot, given=slot)
        if self.pending_timeout_s is not None:
            require_int(self.pending_timeout_s, what=what, field="pending_timeout_s", least=1)
        for name in ("mem_per_gpu_bytes", "mem_per_cpu_bytes"):
            if getattr(self, name) is not None:
                require_int(getattr(self, name), what=what, field=name, least=1, most=AMOUNT_MAX)
        require_int(self.usage_half_life_s, what=what, field="usage_half_life_s", least=1, most=HALF_LIFE_MAX_S)
        self._check_weights(what)

    def _check_weights(self, what: str) -> None:
        if not isinstance(self.slot_weights, Mapping):
            raise InvalidSpec(what=what, field="slot_weights", value=self.slot_weights, problem="must be a mapping")
        for slot, weight in self.slot_weights.items():
            checked_slot_name(slot, given=slot)
            require_int(weight, what=what, field=f"slot_weights.{slot}", least=0, most=SLOT_WEIGHT_MAX)

    def times_out_ms(self, eligible_ms: int | None) -> int | None:
        """When a session that could start since then is cancelled; None if never."""
        if self.pending_timeout_s is None or eligible_ms is None:
            return None
        return eligible_ms + self.pending_timeout_s * 1000
