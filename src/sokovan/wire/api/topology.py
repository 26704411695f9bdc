"""JSON types of the topology: tiers, HyperNodes, and the resulting tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from sokovan.wire.api.bodies import StrictBody
from sokovan.wire.api.fleet import AgentView


@dataclass(frozen=True, slots=True, kw_only=True)
class TierBody(StrictBody):
    """A tier; with `label`, agents with the same value of it are in one HyperNode."""

    name: str
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperNodeBody(StrictBody):
    """A listed HyperNode: its tier by name, and its members, agents or HyperNodes."""

    name: str
    tier: str
    members: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyBody(StrictBody):
    """The topology: its tiers, the closest first, and the HyperNodes that are listed."""

    tiers: list[TierBody]
    hypernodes: list[HyperNodeBody] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNode:
    """A HyperNode or an agent of the tree.

    `kind` is hypernode or agent, and `parent` empty at the top. `origin` of a HyperNode is
    listed or label. `agents` counts the agents below, `free` what those that accept work
    have left.
    """

    name: str
    kind: str
    tier: int
    tier_name: str
    parent: str
    origin: str
    agents: int
    slots: dict[str, int]
    used: dict[str, int]
    free: dict[str, int]
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyView:
    """The topology as it was applied, and the tree over the agents, depth first."""

    tiers: list[TierBody]
    hypernodes: list[HyperNodeBody]
    tree: list[TopologyNode]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationView:
    """A session whose hard topology constraint is not met.

    `group` is the kernel group that the constraint is of, empty for the whole session.
    """

    session: str
    name: str
    status: str
    group: str
    constraint: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChangeView:
    """The result of a change, or of a dry run of it.

    `violations` are the first ones, `violation_count` counts all. `unplaced` counts the
    agents that are in no HyperNode.
    """

    applied: bool
    hypernodes: int
    agents: int
    unplaced: int
    violation_count: int
    violations: list[ViolationView]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsBody(StrictBody):
    """Labels that an operator gives an agent, and labels to remove from those."""

    set: dict[str, str] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsView:
    """The agent after a change of its labels, and what that does to the topology."""

    agent: AgentView
    topology: TopologyChangeView
