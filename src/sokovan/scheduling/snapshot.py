"""SystemSnapshot: the input of one scheduling cycle, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology import HyperNode, HyperNodeTree
from sokovan.domain.constraints.placement import PlacementConstraints
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, AgentId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.owners.past_usage import HALF_LIFE_DEFAULT_S, UsageScope
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import (
    Partition,
    Preemption,
    SessionSpec,
    SessionType,
    TopologyConstraint,
)
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, is_accelerator, needs_master_port, total

__all__ = [
    "NEVER_MS",
    "Booking",
    "FairSharePolicy",
    "KernelWorkload",
    "OwnerUsage",
    "Reservation",
    "SessionWorkload",
    "SystemSnapshot",
    "UsageRecord",
    "gang_holds",
    "latest_start",
    "loss_slots",
    "milliseconds",
    "unsaved_ms",
    "workload_of",
]

# A time after every other, of sessions without a limit.
NEVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class KernelWorkload:
    """One kernel as the scheduler sees it; `agent` is set if it runs already.

    `ports` are the ports that it needs on its agent, 0 for any of the agent's range. With
    `meets`, the kernels of its session may meet at it, at any port of the agent's range.
    `avoid` are agents that failed to start it, each with the end of the time to avoid it.
    `constraints` are those of its session. Others of its session cannot go on without one that
    `leads`: it is evicted only with all of them. With `serves` it is of a replica.
    """

    kernel_id: KernelId
    slots: ResourceSlot
    group: str = ""
    image: str = ""
    architecture: str = ARCHITECTURE_DEFAULT
    labels: Mapping[str, str] = field(default_factory=dict)
    require: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    preemptible: bool = True
    nominated: AgentId | None = None
    agent: AgentId | None = None
    releasing: bool = False
    ports: tuple[int, ...] = ()
    meets: bool = False
    avoid: tuple[tuple[AgentId, int], ...] = ()
    constraints: PlacementConstraints | None = None
    leads: bool = False
    serves: bool = False


@dataclass(frozen=True, slots=True)
class SessionWorkload:
    """One session as the scheduler sees it: waiting, running or growing.

    `submitted` orders sessions by age: a timestamp or a sequence number. At most
    `array_limit` sessions of the same `array` run at once. With `gates`, it is held and not
    considered. `running_since_ms` and `checkpoint_ms` (the last one that it reported) say how
    much work an eviction would lose; None for nothing, and for never. It runs for
    `time_limit_ms` and `grace_ms` at most. It should have ended at `deadline_ms`. It runs on
    the agents of `booking`, if it names one. With `borrow` it may run on what a queue is
    guaranteed and does not use; `loan` is the queue that lends it that. It is not evicted
    while it is `starting`; `evictions_ms` are the times of its evictions of the last day. The
    session that it was evicted for last does not need the room that is free since `room_back_ms`.
    With `migratable` it may be moved; `moved_ms` is the last time. It saves its work every
    `saves_every_ms` or more often, whether it reports that or not.
    """

    session_id: SessionId
    kernels: tuple[KernelWorkload, ...]
    submitted: int = 0
    session_type: SessionType = SessionType.INTERACTIVE
    owner: Owner = field(default_factory=Owner)
    queue: QueueName = QueueName("default")
    priority: int = 0
    min_kernels: int | None = None
    group_minimums: Mapping[str, int] = field(default_factory=dict)
    partitions: tuple[Partition, ...] = ()
    topology: TopologyConstraint | None = None
    hypernode: str | None = None
    dependencies: tuple[SessionId, ...] = ()
    starts_at_ms: int | None = None
    preemptible: bool = True
    preemption: Preemption = Preemption.ALWAYS
    array: str = ""
    array_limit: int | None = None
    gates: tuple[str, ...] = ()
    running_since_ms: int | None = None
    checkpoint_ms: int | None = None
    time_limit_ms: int | None = None
    grace_ms: int = 0
    deadline_ms: int | None = None
    booking: str = ""
    borrow: bool = False
    loan: QueueName | None = None
    starting: bool = False
    evictions_ms: tuple[int, ...] = ()
    room_back_ms: int | None = None
    migratable: bool = False
    saves_every_ms: int | None = None
    moved_ms: int | None = None

    @property
    def charged(self) -> QueueName:
        """The queue that its usage counts for: the lender's, if it runs on a loan."""
        return self.queue if self.loan is None else self.loan

    def ends_by(self, started_ms: int) -> int:
        """The time by which it has ended if it starts at a time; NEVER without a limit."""
        if self.time_limit_ms is None:
            return NEVER_MS
        longest = self.time_limit_ms + self.grace_ms
        return started_ms + (longest if longest > 0 else 1)

    @property
    def waits(self) -> bool:
        """Whether no kernel of the session runs."""
        if len(self.kernels) == 1:
            only = self.kernels[0]
            return only.agent is None or only.releasing
        return all(kernel.agent is None or kernel.releasing for kernel in self.kernels)

    @property
    def gang_size(self) -> int:
        """How many kernels the session needs to run."""
        return len(self.kernels) if self.min_kernels is None else max(1, self.min_kernels)


@dataclass(frozen=True, slots=True)
class OwnerUsage:
    """The current usage of an owner, in the whole system."""

    slots: ResourceSlot = NO_SLOTS
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """Past usage of a user, group or queue: an amount as of a time, held slots since.

    An empty `slot` means that the amount is weighted already.
    """

    name: str
    at_ms: int
    amount: int
    scope: UsageScope = UsageScope.USER
    slot: str = ""
    held: int = 0


@dataclass(frozen=True, slots=True)
class FairSharePolicy:
    """The half-life of past usage; weights of users, groups and slots."""

    half_life_s: int = HALF_LIFE_DEFAULT_S
    weights: Mapping[str, int] = field(default_factory=dict)
    group_weights: Mapping[str, int] = field(default_factory=dict)
    slot_weights: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.half_life_s < 1:
            raise InvalidSpec(
                what="fair share", field="half_life_s", value=self.half_life_s, problem="must be 1 or more"
            )
        for kind in ("weights", "group_weights"):
            for name, weight in getattr(self, kind).items():
                if weight < 1:
                    raise InvalidSpec(
                        what="fair share", field=f"{kind}.{name}", value=weight, problem="must be 1 or more"
                    )

    def weight(self, scope: UsageScope, name: str) -> int:
        """The weight of a user or group; 1 if it has none."""
        match scope:
            case UsageScope.USER:
                return self.weights.get(name, 1)
            case UsageScope.GROUP:
                return self.group_weights.get(name, 1)
            case UsageScope.QUEUE:
                return 1


@dataclass(frozen=True, slots=True)
class Reservation:
    """A session that waits for room, and its agents.

    The room is being released, or with `starts_ms` is free at that time at the latest,
    because the sessions that use it end by then.
    """

    session_id: SessionId
    kernels: tuple[tuple[KernelId, AgentId], ...]
    starts_ms: int | None = None

    @property
    def agents(self) -> tuple[AgentId, ...]:
        """The agents with reserved room, each once, sorted."""
        return tuple(sorted({agent for _, agent in self.kernels}))


@dataclass(frozen=True)
class SystemSnapshot:
    """The whole input of a cycle of one scaling group.

    `outcomes` says of ended sessions whether they succeeded. `usage` and `limits`
    are per scope (keypair, user, group, domain) and name.
    `pending_elsewhere` are waiting sessions in other scaling groups, of owners with a
    limit on waiting sessions. `gave_ms` is the last time at which another queue reclaimed
    from a queue, `evicted_lately` how many kernels of a user were evicted in the last hour.
    """

    agents: tuple[AgentInfo, ...]
    sessions: tuple[SessionWorkload, ...] = ()
    hypernodes: tuple[HyperNode, ...] = ()
    queues: tuple[Queue, ...] = ()
    scaling_group: ScalingGroup = field(default_factory=lambda: ScalingGroup(name=ScalingGroupName("default")))
    now_ms: int = 0
    usage: Mapping[Scope, Mapping[str, OwnerUsage]] = field(default_factory=dict)
    limits: Mapping[Scope, Mapping[str, ResourcePolicy]] = field(default_factory=dict)
    pending_elsewhere: tuple[SessionWorkload, ...] = ()
    outcomes: Mapping[SessionId, bool] = field(default_factory=dict)
    history: tuple[UsageRecord, ...] = ()
    fair_share: FairSharePolicy = field(default_factory=FairSharePolicy)
    reservations: tuple[Reservation, ...] = ()
    cursors: Mapping[str, AgentId] = field(default_factory=dict)
    bookings: tuple[Booking, ...] = ()
    gave_ms: Mapping[str, int] = field(default_factory=dict)
    evicted_lately: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def tree(self) -> HyperNodeTree:
        """The HyperNodes as a tree over the agents. Raises InvalidTopology."""
        return HyperNodeTree((agent.agent_id for agent in self.agents), self.hypernodes)


def agents_holding(
    agents: Iterable[AgentInfo], more: Mapping[AgentId, Sequence[ResourceSlot]]
) -> tuple[AgentInfo, ...]:
    """The agents with more kernels, each of these slots."""
    return tuple(
        [
            replace(
                agent,
                occupied_slots=total([agent.occupied_slots, *more[agent.agent_id]]),
                kernel_count=agent.kernel_count + len(more[agent.agent_id]),
            )
            if agent.agent_id in more
            else agent
            for agent in agents
        ]
    )


def latest_start(session: SessionWorkload) -> int | None:
    """The time by which a session must start to end before its deadline."""
    return None if session.deadline_ms is None else session.deadline_ms - (session.time_limit_ms or 0)


def workload_of(spec: SessionSpec, *, submitted: int) -> SessionWorkload:
    """A session as it was submitted, before any of its kernels runs."""
    meets = needs_master_port([kernel.slots for kernel in spec.kernels])
    constraints = PlacementConstraints(
        project=(spec.owner.domain, spec.owner.group),
        labels=tuple(sorted(spec.labels.items())),
        where=spec.where,
        tolerations=spec.tolerations,
        affinity=spec.affinity,
        anti_affinity=spec.anti_affinity,
    )
    kernels = tuple(
        KernelWorkload(
            kernel_id=kernel.kernel_id,
            slots=kernel.slots,
            group=kernel.group,
            image=kernel.image,
            architecture=kernel.architecture,
            labels=kernel.labels,
            require=kernel.require,
            priority=kernel.priority,
            preemptible=kernel.preemptible,
            nominated=kernel.nominated,
            constraints=constraints if constraints.matter else None,
            ports=() if index else tuple(sorted(port.port for port in spec.ports)),
            meets=meets,
            serves=spec.replica is not None,
        )
        for index, kernel in enumerate(spec.kernels)
    )
    return SessionWorkload(
        session_id=spec.session_id,
        kernels=kernels,
        submitted=submitted,
        session_type=spec.session_type,
        owner=spec.owner,
        queue=spec.queue,
        priority=spec.priority,
        min_kernels=spec.min_kernels,
        group_minimums=spec.group_minimums,
        partitions=spec.partitions,
        topology=spec.topology,
        dependencies=tuple(SessionId(one) for one in spec.awaited),
        starts_at_ms=spec.starts_at_ms,
        preemptible=spec.preemptible,
        preemption=spec.preemption,
        array="" if spec.array is None else spec.array.array_id,
        array_limit=None if spec.array is None else spec.array.at_once,
        gates=spec.gates,
        time_limit_ms=milliseconds(spec.time_limit_s),
        grace_ms=spec.stop_grace_s * 1000,
        booking=spec.booking,
        deadline_ms=spec.deadline_ms,
        borrow=spec.borrow,
        migratable=spec.migratable,
        saves_every_ms=milliseconds(spec.checkpoint_s),
    )


def milliseconds(seconds: int | None) -> int | None:
    """A time limit in milliseconds; None without one."""
    return None if seconds is None else seconds * 1000


def gang_holds(session: SessionWorkload, kernels: Sequence[KernelWorkload]) -> bool:
    """Whether a session has its minimum, group minimums and whole groups."""
    if len(kernels) < session.gang_size:
        return False
    groups = Counter(kernel.group for kernel in kernels)
    if any(groups[group] < least for group, least in session.group_minimums.items()):
        return False
    sizes: Counter[tuple[int, str]] = Counter()
    for kernel in kernels:
        for number, partition in enumerate(session.partitions):
            if partition.by in kernel.labels:
                sizes[number, kernel.labels[partition.by]] += 1
                break
    return all(
        sum(1 for (which, _), size in sizes.items() if which == number and size >= partition.size)
        >= partition.min_groups
        for number, partition in enumerate(session.partitions)
    )


def evictable(session: SessionWorkload) -> bool:
    """Whether all of a session may be evicted, as it has to be to run on what is lent."""
    may_leave = session.preemptible and session.session_type is not SessionType.SYSTEM
    return may_leave and all(kernel.preemptible for kernel in session.kernels)


def unsaved_ms(session: SessionWorkload, now_ms: int, assumed_ms: int) -> int:
    """The time of work that a session loses if it ends now."""
    if session.running_since_ms is None:
        return 0
    ran_ms = max(0, now_ms - session.running_since_ms)
    if session.saves_every_ms is not None:
        ran_ms = min(ran_ms, session.saves_every_ms)
    if session.checkpoint_ms is None:
        return min(ran_ms, assumed_ms)
    return min(ran_ms, max(0, now_ms - session.checkpoint_ms))


def loss_slots(slots: ResourceSlot) -> int:
    """Thousandths of accelerators, or of cpu where there are none."""
    devices = sum(
        amount if slot.endswith(".shares") else amount * 1000 for slot, amount in slots.items() if is_accelerator(slot)
    )
    return devices or slots["cpu"]
