"""Changes of the topology, checked against the sessions that have not ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sokovan.domain.cluster.topology import HyperNode, HyperNodeTree
from sokovan.domain.cluster.topology_rules import Topology, pruned
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import AgentRecord, SessionRecord
from sokovan.domain.topology_limits import TopologyViolation, violations
from sokovan.ports.repositories.sessions import PAGE, SessionFilter
from sokovan.ports.storage import UnitOfWork

_LIVE = tuple(status for status in SessionStatus if status not in SESSION.terminal)


@dataclass(frozen=True, slots=True)
class TopologyState:
    """A topology, the agents that have not left, and the HyperNodes over them.

    `left` are the others, so that they need not be read again.
    """

    topology: Topology
    agents: Sequence[AgentRecord]
    hypernodes: tuple[HyperNode, ...]
    left: Sequence[AgentRecord] = ()

    @property
    def tree(self) -> HyperNodeTree:
        """The tree over all agents."""
        return HyperNodeTree([str(one.info.agent_id) for one in self.agents], self.hypernodes)


async def topology_state(
    unit: UnitOfWork, topology: Topology | None = None, *, known: Mapping[AgentId, AgentRecord] | None = None
) -> TopologyState:
    """The state with this topology; by default the stored one, or none.

    Agents that are `known` are read only if they have changed.
    """
    if topology is None:
        topology = next(iter(await unit.catalog.all(Topology)), Topology())
    found = await unit.fleet.all(known=known)
    agents, left = ([one for one in found if one.info.has_left is has_left] for has_left in (False, True))
    labels: Mapping[str, Mapping[str, str]] = {str(one.info.agent_id): one.info.labels for one in agents}
    return TopologyState(topology, agents, topology.hypernodes_over(labels), left)


async def apply_topology(unit: UnitOfWork, topology: Topology, *, dry_run: bool) -> list[TopologyViolation]:
    """Store a topology, or only check it; the constraints that it does not meet.

    It is stored nevertheless: it describes the network, which is as it is. Raises
    InvalidTopology.
    """
    if dry_run:
        labels = {str(one.info.agent_id): one.info.labels for one in await unit.fleet.all()}
        topology.tree(labels)
    else:
        await unit.catalog.put(topology)
    return await broken_constraints(unit, await topology_state(unit, topology))


async def broken_constraints(unit: UnitOfWork, state: TopologyState) -> list[TopologyViolation]:
    """The hard constraints of sessions that have not ended that are not met."""
    trees: dict[str, HyperNodeTree] = {}
    found: list[TopologyViolation] = []
    after: int | None = None
    while page := await unit.sessions.page(SessionFilter(statuses=_LIVE), limit=PAGE, after=after):
        for session in page:
            if _is_constrained(session):
                group = str(session.spec.scaling_group)
                trees[group] = trees.get(group) or _tree_of(state, group)
                found.extend(violations(trees[group], session))
        after = page[-1].place
    return found


def _is_constrained(session: SessionRecord) -> bool:
    return session.spec.topology is not None or any(one.topology for one in session.spec.partitions)


def _tree_of(state: TopologyState, group: str) -> HyperNodeTree:
    """The tree over the agents of one scaling group, as the scheduler sees it."""
    agents: list[AgentId] = [one.info.agent_id for one in state.agents if one.info.scaling_group == group]
    return HyperNodeTree(agents, pruned(state.hypernodes, agents))
