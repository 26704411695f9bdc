"""The HyperNodes over the agents of a view, derived anew only after a change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import Topology, pruned


class HyperNodeCache:
    """Caches the HyperNodes that a topology gives over all agents."""

    def __init__(self) -> None:
        self._topology = Topology()
        self._found: tuple[HyperNode, ...] | None = None

    def set_topology(self, topology: Topology | None = None) -> None:
        """Replace the topology; None if there is none."""
        self._topology, self._found = topology or Topology(), None

    def agent_changed(self, before: AgentInfo | None, after: AgentInfo) -> None:
        """Take note of an agent that joined or changed."""
        if before is None or (before.labels, before.has_left) != (after.labels, after.has_left):
            self._found = None

    def over(self, every: Iterable[AgentInfo], chosen: Sequence[AgentInfo]) -> tuple[HyperNode, ...]:
        """The part of the topology that contains the chosen agents of all.

        A HyperNode may span scaling groups: other members are omitted, and so is a HyperNode
        without members. The labels of an agent that has left place it nowhere.
        """
        if self._found is None:
            labels = {str(one.agent_id): one.labels for one in every if not one.has_left}
            self._found = self._topology.hypernodes_over(labels)
        return pruned(self._found, [str(agent.agent_id) for agent in chosen]) if self._found else ()
