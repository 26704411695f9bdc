"""The network as a tree of HyperNodes: racks in rows in halls, agents as leaves.

A HyperNode has a tier (1 is nearest to the agents) and members: agents, or HyperNodes of
lower tiers, by their exact names. A virtual root above all guarantees that any two agents
have a common ancestor. Agents are kept in depth-first order: every HyperNode is one
contiguous span of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from sokovan.domain.errors import InvalidTopology, TopologyMismatch, nearest, quoted
from sokovan.domain.ids import checked_name

# Not a legal name of a HyperNode or agent, so it cannot clash with one.
ROOT = "<root>"
TIER_MAX = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A part of the network whose members are close to each other."""

    name: str
    tier: int
    members: tuple[str, ...]
    tier_name: str | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, what="HyperNode")
        if not isinstance(self.tier, int) or isinstance(self.tier, bool) or not 1 <= self.tier <= TIER_MAX:
            raise InvalidTopology(
                hypernode=self.name,
                problem=f"has tier {quoted(self.tier)}, not a number from 1 to {TIER_MAX}",
            )
        if self.tier_name is not None:
            checked_name(self.tier_name, what="tier")
        if not isinstance(self.members, tuple):
            raise InvalidTopology(
                hypernode=self.name,
                problem=f"has members {quoted(self.members)}, not a tuple of names",
            )
        for member in self.members:
            checked_name(member, what="member")
        if not self.members:
            raise InvalidTopology(hypernode=self.name, problem="has no members")


class HyperNodeTree:
    """A validated tree over the agents; answers distance queries."""

    def __init__(self, agents: Iterable[str], hypernodes: Iterable[HyperNode] = ()) -> None:
        names = sorted({checked_name(agent, what="agent") for agent in _each(agents, "agents")})
        self._nodes = _by_name(hypernodes, frozenset(names))
        self._tier_names = _tier_names(self._nodes.values())
        self._parent = _parents(self._nodes, frozenset(names))
        _refuse_cycles(self._nodes, self._parent)
        self._children = _children([*self._nodes, *names], self._parent)
        self.agents: tuple[str, ...] = tuple(_depth_first(self._children, self._nodes))
        self._position = {agent: index for index, agent in enumerate(self.agents)}
        self._spans = _spans(self._children, self._position)
        self.root_tier = max((node.tier for node in self._nodes.values()), default=0) + 1

    @property
    def hypernodes(self) -> tuple[HyperNode, ...]:
        """The HyperNodes as they were given, by name; the virtual root is not among them."""
        return tuple(self._nodes[name] for name in sorted(self._nodes))

    def tier(self, name: str) -> int:
        """The tier of a HyperNode; 0 for an agent."""
        if name == ROOT:
            return self.root_tier
        if name in self._nodes:
            return self._nodes[name].tier
        self.position(name)
        return 0

    def tier_named(self, tier_name: str) -> int | None:
        """The number of a tier by its name, or None if no HyperNode carries it."""
        return self._tier_names.get(tier_name)

    def no_tier_named(self, tier_name: str) -> str:
        """The problem of a name that no tier has, with the nearest name."""
        problem = f"there is no tier named {tier_name}"
        return f"{problem}; {nearest(tier_name, self._tier_names)}" if self._tier_names else problem

    def tier_text(self, tier: int) -> str:
        """The name of a tier, or its number if it has none."""
        if tier == self.root_tier:
            return "whole cluster"
        return next((name for name, number in self._tier_names.items() if number == tier), str(tier))

    def position(self, agent: str) -> int:
        """The index of an agent in depth-first order."""
        if agent not in self._position:
            raise TopologyMismatch(name=agent)
        return self._position[agent]

    def span(self, name: str) -> tuple[int, int]:
        """The half-open range of agent positions under a HyperNode or agent."""
        if name in self._spans:
            return self._spans[name]
        position = self.position(name)
        return position, position + 1

    def agents_under(self, name: str) -> tuple[str, ...]:
        """The agents under a HyperNode, in depth-first order."""
        start, stop = self.span(name)
        return self.agents[start:stop]

    def children(self, name: str) -> tuple[str, ...]:
        """The members of a HyperNode, in order; none for an agent."""
        self.span(name)
        return self._children.get(name, ())

    def ancestors(self, name: str) -> Iterator[str]:
        """The HyperNodes above `name`, nearest first, the virtual root last."""
        self.span(name)
        while name != ROOT:
            name = self._parent.get(name, ROOT)
            yield name

    def domain_of(self, agents: Iterable[str]) -> str | None:
        """The lowest HyperNode that holds all these agents; None for no agents."""
        positions = [self.position(agent) for agent in agents]
        if not positions:
            return None
        first, last = min(positions), max(positions)
        for node in self.ancestors(self.agents[first]):
            low, high = self.span(node)
            if low <= first and last < high:
                return node
        return ROOT


def _each(given: Iterable[T], what: str) -> Iterator[T]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidTopology(hypernode=ROOT, problem=f"cannot hold {quoted(given)}, which is no list of {what}")
    return iter(given)


def _by_name(hypernodes: Iterable[HyperNode], agents: frozenset[str]) -> dict[str, HyperNode]:
    nodes: dict[str, HyperNode] = {}
    for node in _each(hypernodes, "HyperNodes"):
        if not isinstance(node, HyperNode):
            raise InvalidTopology(hypernode=ROOT, problem=f"cannot hold {quoted(node)}, which is no HyperNode")
        if node.name in nodes:
            raise InvalidTopology(hypernode=node.name, problem="is given twice")
        if node.name in agents:
            raise InvalidTopology(hypernode=node.name, problem="has the name of an agent")
        nodes[node.name] = node
    return nodes


def _tier_names(nodes: Iterable[HyperNode]) -> dict[str, int]:
    tiers: dict[str, int] = {}
    for node in nodes:
        if node.tier_name is not None and tiers.setdefault(node.tier_name, node.tier) != node.tier:
            elsewhere = tiers[node.tier_name]
            problem = f"calls tier {node.tier} {quoted(node.tier_name)}, which is tier {elsewhere} elsewhere"
            raise InvalidTopology(hypernode=node.name, problem=problem, hint="give each tier one name")
    return tiers


def _parents(nodes: dict[str, HyperNode], agents: frozenset[str]) -> dict[str, str]:
    parent: dict[str, str] = {}
    for node in nodes.values():
        for member in node.members:
            if member not in agents and member not in nodes:
                raise InvalidTopology(
                    hypernode=node.name,
                    problem=f"has a member {quoted(member)} that is neither agent nor HyperNode",
                )
            if member in parent:
                where = "twice" if parent[member] == node.name else f"that is in {quoted(parent[member])} already"
                raise InvalidTopology(hypernode=node.name, problem=f"has the member {quoted(member)} {where}")
            parent[member] = node.name
    return parent


def _refuse_cycles(nodes: dict[str, HyperNode], parent: dict[str, str]) -> None:
    """Require tiers that rise towards the root, which also excludes cycles."""
    for name, node in nodes.items():
        over = nodes.get(parent.get(name, ""))
        if over is None or over.tier > node.tier:
            continue
        above, path = parent.get(name), {name: True}
        while above is not None and above not in path:
            path[above] = True
            above = parent.get(above)
        if above == name:
            circle = " in ".join([*path, name])
            raise InvalidTopology(hypernode=name, problem=f"is part of a cycle: {quoted(circle)}")
        raise InvalidTopology(
            hypernode=over.name,
            problem=f"of tier {over.tier} has a member {quoted(name)} of tier {node.tier}",
            hint="the tier of a HyperNode is higher than the tiers of its members",
        )


def _children(names: Iterable[str], parent: dict[str, str]) -> dict[str, tuple[str, ...]]:
    grouped: dict[str, list[str]] = {ROOT: []}
    for name in names:
        grouped.setdefault(parent.get(name, ROOT), []).append(name)
    return {name: tuple(sorted(members)) for name, members in grouped.items()}


def _depth_first(children: dict[str, tuple[str, ...]], nodes: dict[str, HyperNode]) -> Iterator[str]:
    stack = [ROOT]
    while stack:
        name = stack.pop()
        if name in children:
            stack.extend(reversed(children[name]))
        elif name not in nodes:
            yield name


def _spans(children: dict[str, tuple[str, ...]], position: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Each HyperNode's range of positions, children before parents."""
    spans: dict[str, tuple[int, int]] = {}
    order, stack = [], [ROOT]
    while stack:
        name = stack.pop()
        if name in children:
            order.append(name)
            stack.extend(children[name])
    for name in reversed(order):
        ranges = [spans.get(child) or (position[child], position[child] + 1) for child in children[name]]
        spans[name] = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else (0, 0)
    return spans
