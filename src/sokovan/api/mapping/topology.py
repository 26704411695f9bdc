"""Converts the topology from and to wire types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from sokovan.api.mapping.requests import topology_text
from sokovan.domain.cluster.topology import ROOT, HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.errors import InvalidTopology, SokovanError, quoted
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.records import AgentRecord
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, total
from sokovan.domain.topology_limits import TopologyViolation
from sokovan.orchestrator.topology_changes import TopologyState
from sokovan.wire.api.topology import (
    HyperNodeBody,
    TierBody,
    TopologyBody,
    TopologyChangeView,
    TopologyNode,
    TopologyView,
    ViolationView,
)

T = TypeVar("T")

VIOLATIONS_SHOWN = 100


def topology_of(body: TopologyBody) -> Topology:
    """The topology of a body; tiers are numbered from 1.

    Raises InvalidTopology, InvalidRequest.
    """
    rules = tuple(_located(f"tiers/{at}", TierRule, at + 1, one.name, one.label) for at, one in enumerate(body.tiers))
    numbers = {rule.name: rule.tier for rule in rules}
    nodes = []
    for at, node in enumerate(body.hypernodes):
        if node.tier not in numbers:
            known = ", ".join(numbers) or "none"
            hint = f"the tiers are {known}"
            raise InvalidTopology(hypernode=node.name, problem=f"has the unknown tier {quoted(node.tier)}", hint=hint)
        place = f"hypernodes/{at}"
        nodes.append(_located(place, HyperNode, node.name, numbers[node.tier], tuple(node.members), node.tier))
    return Topology(rules, tuple(nodes))


def _located(where: str, make: Callable[..., T], *values: object) -> T:
    try:
        return make(*values)
    except InvalidTopology:
        raise
    except SokovanError as error:
        raise InvalidRequest([Problem(where, error.message)]) from error


def topology_view(state: TopologyState) -> TopologyView:
    """The view of a topology with its tree."""
    topology = state.topology
    return TopologyView(
        tiers=[TierBody(name=rule.name, label=rule.label) for rule in topology.tiers],
        hypernodes=[
            HyperNodeBody(name=node.name, tier=node.tier_name or str(node.tier), members=list(node.members))
            for node in topology.hypernodes
        ],
        tree=_nodes(state),
    )


def change_view(state: TopologyState, found: Sequence[TopologyViolation], *, applied: bool) -> TopologyChangeView:
    """The view of a change and of the constraints that it does not meet."""
    tree = state.tree
    top = [child for child in tree.children(ROOT) if tree.tier(child) == 0]
    return TopologyChangeView(
        applied=applied,
        hypernodes=len(state.hypernodes),
        agents=len(state.agents),
        unplaced=len(top),
        violation_count=len(found),
        violations=[_violation(one) for one in found[:VIOLATIONS_SHOWN]],
    )


def _violation(one: TopologyViolation) -> ViolationView:
    return ViolationView(
        session=one.session.session_id,
        name=one.session.spec.name,
        status=one.session.status.value,
        group=one.group,
        constraint=topology_text(one.constraint),
        problem=one.problem,
    )


def _nodes(state: TopologyState) -> list[TopologyNode]:
    """HyperNodes and agents, depth first, each with the sums over the agents below."""
    tree, records = state.tree, {str(one.info.agent_id): one for one in state.agents}
    hypernodes = {node.name: node for node in state.hypernodes}
    listed = {node.name for node in state.topology.hypernodes}
    found: list[TopologyNode] = []
    stack = [(name, "") for name in reversed(tree.children(ROOT))]
    while stack:
        name, parent = stack.pop()
        below = [records[agent] for agent in tree.agents_under(name)]
        node = hypernodes.get(name)
        found.append(
            TopologyNode(
                name=name,
                kind="agent" if node is None else "hypernode",
                tier=tree.tier(name),
                tier_name=(node.tier_name or "") if node is not None else "",
                parent=parent,
                origin="" if node is None else "listed" if name in listed else "label",
                agents=len(below),
                slots=dict(_sum(one.info.available_slots for one in below)),
                used=dict(_sum(one.info.occupied_slots for one in below)),
                free=dict(_sum(_free(one) for one in below)),
                status=records[name].info.status.value if node is None else "",
            )
        )
        stack.extend((child, name) for child in reversed(tree.children(name)))
    return found


def _free(agent: AgentRecord) -> ResourceSlot:
    return agent.info.free_slots if agent.info.schedulable else NO_SLOTS


def _sum(amounts: Iterable[ResourceSlot]) -> ResourceSlot:
    return total(list(amounts))
