"""The tiers that a topology constraint allows, and whether agents keep to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sokovan.domain.cluster.topology import ROOT, HyperNodeTree
from sokovan.domain.records import SessionRecord
from sokovan.domain.session import TopologyConstraint, TopologyMode


class TierLimit(NamedTuple):
    """The highest tier that a search may use; `problem` says why it cannot start."""

    highest: int
    problem: str = ""


class TopologyViolation(NamedTuple):
    """A hard constraint of a session, or of a kernel group of it, that is not met."""

    session: SessionRecord
    group: str
    constraint: TopologyConstraint
    problem: str


def tier_limit(tree: HyperNodeTree, constraint: TopologyConstraint | None) -> TierLimit:
    """The highest tier that a constraint allows; an invalid hard one gives a problem."""
    root = tree.root_tier
    if constraint is None or constraint.mode is TopologyMode.SOFT:
        return TierLimit(root)
    if root == 1:
        return TierLimit(0, "a hard topology needs HyperNodes, and its scaling group has none")
    highest = constraint.highest_tier
    if isinstance(highest, str):
        number = tree.tier_named(highest)
        if number is None:
            return TierLimit(0, tree.no_tier_named(highest))
        highest = number
    if highest is None:
        # The whole cluster has to be requested by its number; "hard" alone means some HyperNode.
        return TierLimit(root - 1)
    if highest > root:
        return TierLimit(0, f"there is no tier {highest}; the whole cluster is tier {root}")
    return TierLimit(highest)


def violations(tree: HyperNodeTree, session: SessionRecord) -> Iterator[TopologyViolation]:
    """The hard constraints of a session that its kernels, where they are, do not meet."""
    agents = {kernel.index: str(kernel.agent_id) for kernel in session.kernels if kernel.agent_id is not None}
    for group, constraint, members in _constraints(session):
        problem = _problem(tree, constraint, [agents[index] for index in members if index in agents])
        if problem:
            yield TopologyViolation(session, group, constraint, problem)


def _constraints(session: SessionRecord) -> Iterator[tuple[str, TopologyConstraint, list[int]]]:
    """Each constraint with its kernel group, and the indices of its kernels."""
    spec = session.spec
    if spec.topology is not None:
        yield "", spec.topology, list(range(len(spec.kernels)))
    taken: set[int] = set()
    for partition in spec.partitions:
        groups: dict[str, list[int]] = {}
        for index, kernel in enumerate(spec.kernels):
            if index not in taken and partition.by in kernel.labels:
                groups.setdefault(kernel.labels[partition.by], []).append(index)
        taken.update(index for members in groups.values() for index in members)
        if partition.topology is not None:
            yield from ((name, partition.topology, groups[name]) for name in sorted(groups))


def _problem(tree: HyperNodeTree, constraint: TopologyConstraint, agents: Iterable[str]) -> str:
    limit = tier_limit(tree, constraint)
    if constraint.mode is TopologyMode.SOFT or limit.problem:
        return limit.problem
    known = set(tree.agents)
    domain = tree.domain_of(agent for agent in agents if agent in known)
    if domain is None or tree.tier(domain) <= limit.highest:
        return ""
    place = "no common HyperNode" if domain == ROOT else f"{domain} of tier {tree.tier(domain)}"
    return f"its kernels are in {place}, the highest allowed tier is {limit.highest}"
