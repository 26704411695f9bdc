"""JSON types of agents, scaling groups, queues, bookings and images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from sokovan.wire.api.bodies import Amount, StrictBody
from sokovan.wire.api.explanations import DeviceFiguresView

# The label of fake agents.
FAKE_LABEL = "sokovan.fake"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailureView:
    """A session that an agent could not start; whose it was is for administrators."""

    at: str
    code: str
    session: str = ""
    user: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """One agent.

    `failed_starts` are sessions that could not be started on it since one last started.
    With `failing_since` it gets no new kernels until a probe succeeds on it.
    `operator_labels` are those of its labels that operators gave it. `taints` are written
    as KEY or KEY=VALUE. `images` are those that kernels can start in at once.
    `device_faults` are devices that get no new kernels, with the reason. `devices` are what
    those that can be measured do; lists leave it out. With `unapproved`, which it claims beyond
    its join token, it gets no new kernels until an administrator approves them.
    """

    id: str
    status: str
    incarnation: int
    scaling_group: str
    architecture: str
    labels: dict[str, str]
    slots: dict[str, int]
    used: dict[str, int]
    kernels: int
    kernels_max: int | None
    kernel_ports: str = ""
    connected: bool
    heartbeat_at: str | None
    load: dict[str, int]
    version: int
    operator_labels: dict[str, str] = field(default_factory=dict)
    taints: list[str] = field(default_factory=list)
    failing_since: str | None = None
    failing_reason: str = ""
    failed_starts: list[AgentFailureView] = field(default_factory=list)
    shard: str | None = None
    images: list[str] = field(default_factory=list)
    device_faults: dict[str, str] = field(default_factory=dict)
    devices: dict[str, DeviceFiguresView] = field(default_factory=dict)
    unapproved: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPage:
    """A page of agents; `next` is the cursor of the next page."""

    items: list[AgentView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHolder:
    """A session that holds devices."""

    id: str
    name: str
    user: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """Agents and their devices as columns, which are short for many of them.

    Equal places of `agents` to `hypernode`, and of `device` to `device_temperature`, belong together.
    `hypernode`, `device_agent` and `device_holder` are places in `hypernodes`, `agents` and
    `holders`; -1 is none, and -2 a holder that the caller may not see. `agents` are by name,
    `holders` by id. `hypernode_parent` is the HyperNode above each of `hypernodes`. A device with a
    fault gets no new kernels. `device_use` and `device_memory` are percents, `device_temperature`
    degrees Celsius, as agents measured them last; -1 is unknown, and without any figure they are
    empty. `failing` says by agent why it gets none for now, `slots` and `used` are sums over all
    agents.
    """

    as_of: str
    hypernodes: list[str]
    holders: list[DeviceHolder]
    agents: list[str]
    status: list[str]
    connected: list[bool]
    kernels: list[int]
    hypernode: list[int]
    device: list[str]
    device_agent: list[int]
    device_slot: list[str]
    device_units: list[int]
    device_used: list[int]
    device_holder: list[int]
    device_fault: list[str] = field(default_factory=list)
    device_use: list[int] = field(default_factory=list)
    device_memory: list[int] = field(default_factory=list)
    device_temperature: list[int] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    hypernode_parent: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChange(StrictBody):
    """An administrator's action on an agent: drain, undrain, declare-gone."""

    action: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfBody(StrictBody):
    """Changes of the cluster to try out.

    `drain` are agents, `weights` are by queue, `add` is how many machines like each agent.
    """

    drain: list[str] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)
    add: dict[str, int] = field(default_factory=dict)
    scaling_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfPlanView:
    """A scheduling cycle: sessions that start and wait, and kernels that are evicted."""

    starts: int
    waits: int
    evicts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfSessionView:
    """A waiting session whose verdict differs; `PLACED` is one that starts."""

    id: str
    name: str
    user: str
    queue: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfShareView:
    """A slot of which a queue deserves another amount."""

    queue: str
    slot: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfView:
    """The next scheduling cycle, and the one after the changes.

    `left_out` sessions differ as well, and are not listed.
    """

    before: WhatIfPlanView
    after: WhatIfPlanView
    sessions: list[WhatIfSessionView]
    left_out: int
    shares: list[WhatIfShareView]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentImpactSession:
    """A session with kernels on an agent: how many of its kernels are there.

    One that `moves` is a replica: it ends after another one serves on another agent.
    """

    id: str
    name: str
    user: str
    queue: str
    status: str
    kernels: int
    size: int
    moves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentImpactView:
    """The impact of an action on an agent, which was not changed.

    `ends_kernels` says whether the kernels of `sessions` end by it; otherwise they continue.
    `group_agents` and `group_free` are the agents of its scaling group that accept work, and
    their free slots, before and after it. `left_out` sessions are not listed.
    """

    agent: str
    action: str
    before: str
    after: str
    ends_kernels: bool
    kernels: int
    used: dict[str, int]
    sessions: list[AgentImpactSession]
    left_out: int
    scaling_group: str
    group_agents: int
    group_agents_after: int
    group_free: dict[str, int]
    group_free_after: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHoldView:
    """A device that was held from a time to a time, which is null while it is.

    Without `session` it was one that the caller may not see.
    """

    agent: str
    device: str
    units: int
    since: str
    until: str | None
    session: str = ""
    name: str = ""
    user: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentClosedView:
    """A time in which an agent got no new kernels because of its status."""

    agent: str
    status: str
    since: str
    until: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBookingView:
    """A booking or maintenance window, with those of the listed agents that it is on."""

    name: str
    kind: Literal["booking", "maintenance"]
    starts_at: str
    ends_at: str
    agents: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRoomView:
    """Room of an agent that is kept for a waiting session, from a time on or from now."""

    agent: str
    kernels: int
    starts_at: str | None
    session: str = ""
    name: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineView:
    """Devices of agents over time: who held them, and what is planned on their agents.

    `devices` are by agent. With `cut` there are more holds than are listed: choose a shorter
    time or fewer agents. `next` is the cursor of the next agents.
    """

    since: str
    until: str
    agents: list[str]
    devices: dict[str, list[str]]
    holds: list[DeviceHoldView]
    closed: list[AgentClosedView]
    bookings: list[TimelineBookingView]
    kept: list[KeptRoomView]
    cut: bool
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintsBody(StrictBody):
    """Taints to give an agent, as KEY or KEY=VALUE, and to remove, as KEY."""

    set: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingGroupBody(StrictBody):
    """A pool of agents that are scheduled together.

    No `session_types` means all of them. One that is not `public` takes sessions only of
    the owners in `assigned_to`: `domain:NAME`, `group:NAME`, `user:NAME`, `keypair:NAME`.
    An empty `slot_priority` means the usual one. Sessions mount folders of agents, and work
    in them, only beneath `mount_roots`; `{user}` and `{group}` stand for their owner.
    Kernels that request nothing are accepted with `allow_best_effort` only.
    With `isolated_network` a kernel reaches nothing but itself.
    """

    name: str
    scheduler: str = "fifo"
    scheduler_opts: dict[str, Any] = field(default_factory=dict)
    known_slots: list[str] = field(default_factory=list)
    slot_priority: list[str] = field(default_factory=list)
    session_types: list[str] = field(default_factory=list)
    public: bool = True
    assigned_to: list[str] = field(default_factory=list)
    default_queue: str | None = None
    lifetime_max_s: int | None = None
    idle_timeout_s: int | None = None
    idle_timeout_max_s: int | None = None
    pending_timeout_s: int | None = None
    usage_half_life_s: int = 604_800
    slot_weights: dict[str, int] = field(default_factory=dict)
    mem_per_gpu: Amount | None = None
    mem_per_cpu: Amount | None = None
    allow_best_effort: bool = False
    best_effort_per_agent_max: int = 16
    best_effort_per_user_max: int = 8
    mount_roots: list[str] = field(default_factory=list)
    isolated_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingGroupPage:
    """All scaling groups."""

    items: list[ScalingGroupBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBody(StrictBody):
    """A queue: its weight, its parent and its limits.

    `guarantee` is reserved for it, `deserved` is its share, and `capability` the most that
    it uses. If `reclaimable`, others may reclaim what it uses beyond its share. The minimum of
    a session is not evicted before it ran for `min_runtime_s`. What it is guaranteed and does not
    use is lent to sessions that give it back within `return_s`.
    """

    name: str
    parent: str | None = None
    weight: int = 1
    priority: int = 0
    open: bool = True
    reclaimable: bool = True
    min_runtime_s: int | None = None
    return_s: int | None = None
    deserved: dict[str, Amount] | None = None
    guarantee: dict[str, Amount] | None = None
    capability: dict[str, Amount] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShareView:
    """The share of a queue in one slot of a scaling group, now.

    `borrowed` is the part of `allocated` beyond `deserved`, which is missing where the queue has
    no share; `waiting` is what its waiting sessions request. `limit` is the most it may use.
    """

    queue: str
    scaling_group: str
    slot: str
    allocated: int
    borrowed: int
    waiting: int
    guarantee: int
    limit: int
    deserved: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSharesView:
    """The shares of queues in a scaling group."""

    items: list[QueueShareView]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """All queues."""

    items: list[QueueBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingBody(StrictBody):
    """Whole agents from a time to a time: by name, or all below a HyperNode.

    Or some that have `slots` together.
    Without agents, those that together have the slots and are free are chosen, in one scaling
    group. Sessions of `users`, `groups` and `queues` may name it. Agents in maintenance run no
    sessions. A booking that no session uses `release_unused_s` after it began is given up. With `return_s`
    its agents are lent before it begins, to sessions that borrow and end so soon after their notice.
    """

    name: str
    starts_at: str
    ends_at: str
    kind: Literal["booking", "maintenance"] = "booking"
    agents: list[str] = field(default_factory=list)
    hypernode: str | None = None
    users: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    release_unused_s: int = 600
    slots: dict[str, Amount] | None = None
    return_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingPage:
    """All bookings."""

    items: list[BookingBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBody(StrictBody):
    """An image: `host`, `venv:NAME`, or a container image."""

    name: str
    architecture: str = "x86_64"
    digest: str | None = None
    slots_min: dict[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePage:
    """All images."""

    items: list[ImageBody]
    next: str | None = None
