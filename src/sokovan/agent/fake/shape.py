"""The shape of a fake fleet: agents with accelerators, in racks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from sokovan.domain.cluster.agent import FAKE_RUNTIME, MOUNTS_ANYWHERE, MOUNTS_LABEL, RUNTIME_LABEL, AgentInfo
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, AgentId, ScalingGroupName
from sokovan.domain.records import Device
from sokovan.domain.slots import CUDA_SLOT, ResourceSlot
from sokovan.wire.api.fleet import FAKE_LABEL

AGENTS_MAX = 10_000
GPUS_MAX = 64
RACK_LABEL = "rack"
# Stored in data folders and used in agent selectors; the values cannot change.
ROOT = "fake"

LABELS = {FAKE_LABEL: "yes", MOUNTS_LABEL: MOUNTS_ANYWHERE, RUNTIME_LABEL: FAKE_RUNTIME}

_CPU_MILLICORES = 64_000
_MEMORY_BYTES = 512 << 30
# Fleets up to this size have small racks; larger ones have as many racks as agents per rack.
_SMALL = 256
_SMALL_RACK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """The number of fake agents, their resources and their racks."""

    count: int
    gpus: int
    scaling_group: ScalingGroupName = ScalingGroupName("default")
    architecture: str = ARCHITECTURE_DEFAULT
    rack_size: int = field(default=0)  # 0: derived from the number of agents
    kernels_max: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.count <= AGENTS_MAX or not 0 <= self.gpus <= GPUS_MAX or self.rack_size < 0:
            raise InvalidInput(
                f"a fleet of {self.count} agents with {self.gpus} accelerators each cannot be simulated",
                hint=f"use 1 to {AGENTS_MAX} agents with up to {GPUS_MAX} accelerators each",
            )

    @property
    def per_rack(self) -> int:
        """The number of agents per rack."""
        return self.rack_size or (_SMALL_RACK if self.count <= _SMALL else math.isqrt(self.count - 1) + 1)

    def racks(self) -> Iterator[tuple[str, list[AgentId]]]:
        """Every rack with its agents; names sort in the order of the racks."""
        rack_count = -(-self.count // self.per_rack)
        rack_digits = max(2, len(str(rack_count - 1)))
        node_digits = len(str(self.per_rack - 1))
        for rack in range(rack_count):
            name = f"r{rack:0{rack_digits}}"
            nodes = min(self.per_rack, self.count - rack * self.per_rack)
            yield name, [AgentId(f"{name}n{node:0{node_digits}}") for node in range(nodes)]

    def agents(self) -> list[AgentInfo]:
        """Every agent as it enrols."""
        slots = ResourceSlot({"cpu": _CPU_MILLICORES, "mem": _MEMORY_BYTES, CUDA_SLOT: self.gpus})
        return [
            AgentInfo(
                agent_id=agent_id,
                available_slots=slots,
                architecture=self.architecture,
                labels={**LABELS, RACK_LABEL: rack},
                scaling_group=self.scaling_group,
                kernels_max=self.kernels_max,
            )
            for rack, agent_ids in self.racks()
            for agent_id in agent_ids
        ]

    def devices(self) -> tuple[Device, ...]:
        """The accelerators of each agent."""
        return tuple(Device(f"gpu{number}", CUDA_SLOT) for number in range(self.gpus))

    def topology(self) -> Topology:
        """The network topology: the racks, and a root above them."""
        rack, root = TierRule(1, RACK_LABEL), TierRule(2, "root")
        racks = [HyperNode(name, rack.tier, tuple(agents), tier_name=rack.name) for name, agents in self.racks()]
        top = HyperNode(ROOT, root.tier, tuple(rack.name for rack in racks), tier_name=root.name)
        return Topology((rack, root), (*racks, top))
