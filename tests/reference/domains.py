"""HyperNodes of the reference scheduler: sets of agents with a tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.scheduling.snapshot import KernelWorkload, SystemSnapshot
from tests.reference.machines import ONE, ClusterState


@dataclass(frozen=True)
class Domain:
    """One HyperNode, with all agents under it."""

    name: str
    tier: int
    agents: frozenset[str]


class Network:
    """All HyperNodes, and the virtual root above them."""

    def __init__(self, snapshot: SystemSnapshot) -> None:
        self._nodes = {node.name: node for node in snapshot.hypernodes}
        top = max((node.tier for node in snapshot.hypernodes), default=0) + 1
        self.root = Domain("<root>", top, frozenset(str(info.agent_id) for info in snapshot.agents))
        below = [Domain(node.name, node.tier, self._agents(node.name)) for node in snapshot.hypernodes]
        self._domains = [*below, self.root]

    def highest(self, constraint: TopologyConstraint) -> int | None:
        """The highest tier that a constraint allows; None if it cannot be met at all."""
        if constraint.mode is TopologyMode.SOFT:
            return self.root.tier
        if not self._nodes:
            return None
        if constraint.highest_tier is None:
            return self.root.tier - 1
        if isinstance(constraint.highest_tier, int):
            return constraint.highest_tier if constraint.highest_tier <= self.root.tier else None
        named = {node.tier_name: node.tier for node in self._nodes.values()}
        return named.get(constraint.highest_tier)

    def inside(self, outer: Domain, highest: int, around: set[str]) -> list[Domain]:
        """The domains of a subtree that hold all of `around`."""
        most = min(highest, outer.tier)
        known = around & self.root.agents
        return [d for d in self._domains if d.tier <= most and known <= d.agents <= outer.agents]

    def _agents(self, name: str) -> frozenset[str]:
        if name not in self._nodes:
            return frozenset({name})
        return frozenset(agent for member in self._nodes[name].members for agent in self._agents(member))


def by_preference(domains: Sequence[Domain], cluster: ClusterState, demand: Sequence[KernelWorkload]) -> list[Domain]:
    """Lowest tier first; in a tier the one that the demand would fill most, then by name."""
    return sorted(domains, key=lambda domain: (domain.tier, -_fullness(domain, cluster, demand), domain.name))


def _fullness(domain: Domain, cluster: ClusterState, demand: Sequence[KernelWorkload]) -> int:
    """How full a domain would be with the demand in it, summed over the requested slots."""
    machines = [cluster.machines[name] for name in domain.agents]
    fullness = 0
    for slot in {slot for kernel in demand for slot in kernel.slots}:
        capacity = sum(machine.info.available_slots[slot] for machine in machines)
        idle = sum(machine.idle.get(slot, 0) for machine in machines)
        request = sum(kernel.slots[slot] for kernel in demand)
        fullness += (capacity - idle + request) * ONE // max(1, capacity)
    return fullness
