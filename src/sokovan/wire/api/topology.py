"""JSON types of the topology, and of changes of the fleet."""

from __future__ import annotations

from dataclasses import dataclass, field

from sokovan.wire.api.bodies import StrictBody
from sokovan.wire.api.fleet import AgentView, DeviceHolder


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChangeView:
    """A change of a FleetView, applied in this order.

    1. Agents that have `gone` leave, with their devices and why they were failing.
    2. Agents that `joined` come, by name among the others; `joined_devices` says how many
       of `device`, `device_slot` and `device_units` each has. Figures of new devices begin
       as -1. An agent with other devices than before leaves and comes again.
    3. Columns get new values at places among the agents and devices of now: `status` to
       `hypernode` at `agent_at`, `device_used` to `device_fault` at `device_at`, figures at
       `figure_at`. Without `measured` the columns of figures are empty; otherwise they begin
       as -1. Here `device_holder` are places in the `holders` of the change.
    4. Holders that no device names any more are left out, and the rest are sorted by id.

    An agent with an empty text in `failing` is well again. What is null is as before.
    """

    as_of: str
    gone: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    joined_devices: list[int] = field(default_factory=list)
    device: list[str] = field(default_factory=list)
    device_slot: list[str] = field(default_factory=list)
    device_units: list[int] = field(default_factory=list)
    hypernodes: list[str] | None = None
    hypernode_parent: list[int] | None = None
    agent_at: list[int] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    connected: list[bool] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)
    hypernode: list[int] = field(default_factory=list)
    device_at: list[int] = field(default_factory=list)
    device_used: list[int] = field(default_factory=list)
    device_holder: list[int] = field(default_factory=list)
    device_fault: list[str] = field(default_factory=list)
    holders: list[DeviceHolder] = field(default_factory=list)
    measured: bool = False
    figure_at: list[int] = field(default_factory=list)
    device_use: list[int] = field(default_factory=list)
    device_memory: list[int] = field(default_factory=list)
    device_temperature: list[int] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    slots: dict[str, int] | None = None
    used: dict[str, int] | None = None
