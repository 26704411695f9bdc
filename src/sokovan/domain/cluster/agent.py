"""Agents: the machines that kernels run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.checks import require_int, require_kind, require_labels, require_slots
from sokovan.domain.cluster.agent_health import HEALTHY, AgentHealth
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, DEFAULT_SCALING_GROUP, AgentId, ScalingGroupName, checked_name
from sokovan.domain.lifecycle.agent import SCHEDULABLE, AgentStatus
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

# The agent label for the mount targets that its kernels may use.
MOUNTS_LABEL = "sokovan.mounts"
MOUNTS_ANYWHERE = "anywhere"
MOUNTS_IN_PLACE = "in-place"
# The agent label for the range of ports that are leased to kernels, such as 30000-39999.
PORTS_LABEL = "sokovan.ports"
PORTS_DEFAULT = range(30_000, 40_000)
FOREVER_MS = 1 << 62


def port_range(labels: Mapping[str, str]) -> range:
    """The ports that an agent leases to kernels: its label, or the default."""
    first, _, last = labels.get(PORTS_LABEL, "").partition("-")
    if not (first.isascii() and last.isascii() and first.isdecimal() and last.isdecimal()):
        return PORTS_DEFAULT
    low, high = int(first[:6]), int(last[:6])
    return range(low, high + 1) if 1_024 <= low <= high <= 65_535 else PORTS_DEFAULT  # not privileged


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """One machine: its capacity, its usage and what it may be used for.

    `incarnation` rises each time the agent enrols again; reports from an earlier
    incarnation, and requests to it, are rejected. `releasing_slots` and `releasing_count`
    are the part of the occupied resources that is being released. `leased_ports` are pairs
    of a port and the time in ms until which it is taken, FOREVER_MS while it is leased.
    """

    agent_id: AgentId
    available_slots: ResourceSlot
    occupied_slots: ResourceSlot = NO_SLOTS
    architecture: str = ARCHITECTURE_DEFAULT
    labels: Mapping[str, str] = field(default_factory=dict)
    kernels_max: int | None = None
    status: AgentStatus = AgentStatus.ALIVE
    scaling_group: ScalingGroupName = DEFAULT_SCALING_GROUP
    shard: str | None = None
    incarnation: int = 1
    cached_images: frozenset[str] = frozenset()
    releasing_slots: ResourceSlot = NO_SLOTS
    kernel_count: int = 0
    releasing_count: int = 0
    health: AgentHealth = HEALTHY
    leased_ports: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        checked_name(self.agent_id, what="agent")
        what = f"agent {self.agent_id}"
        require_slots(self.available_slots, what=what, field="available_slots")
        require_slots(self.occupied_slots, what=what, field="occupied_slots")
        checked_name(self.architecture, what="architecture")
        checked_name(self.scaling_group, what="scaling group")
        require_kind(self.status, AgentStatus, what=what, field="status")
        require_kind(self.cached_images, frozenset, what=what, field="cached_images")
        require_labels(self.labels, what=what)
        require_slots(self.releasing_slots, what=what, field="releasing_slots")
        require_int(self.incarnation, what=what, field="incarnation", least=1)
        require_int(self.kernel_count, what=what, field="kernel_count", least=0)
        require_int(self.releasing_count, what=what, field="releasing_count", least=0, most=self.kernel_count)
        if self.kernels_max is not None:
            require_int(self.kernels_max, what=what, field="kernels_max", least=0)
        if self.shard is not None:
            checked_name(self.shard, what="shard")
        if not self.releasing_slots.fits(self.occupied_slots):
            raise InvalidSpec(
                what=what, field="releasing_slots", value=self.releasing_slots, problem="is more than is occupied"
            )

    @property
    def schedulable(self) -> bool:
        """Whether new kernels may be placed on this agent."""
        return self.status in SCHEDULABLE and not self.health.is_failing

    @property
    def free_slots(self) -> ResourceSlot:
        """Available minus occupied slots. Raises SlotUnderflow on an overcommitted agent."""
        return self.available_slots - self.occupied_slots
