"""Builders of small clusters and sessions for the tests of the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue
from sokovan.domain.cluster.topology import HyperNode, HyperNodeTree
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, SessionId
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.domain.slot_notation import parse_slots
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.scheduling.engine.agent_choice import KeyedChoice
from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import BatchingContext, KernelBatch, PendingSession
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.usage.queue_usage import CAPACITY, QueueUsage
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.extensions import Extensions, SchedulingPlugin
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry
from sokovan.scheduling.selectors.concentrated import ConcentratedSelector
from sokovan.scheduling.snapshot import KernelWorkload, OwnerUsage, SessionWorkload, SystemSnapshot


def agent(name: str, slots: str, *, used: str = "", leaving: str = "", **more: Any) -> AgentInfo:
    """An agent with these capacity, used and releasing slots; one kernel for each of the last two."""
    more.setdefault("kernel_count", int(bool(used)))
    more.setdefault("releasing_count", int(bool(leaving)))
    return AgentInfo(
        AgentId(name),
        parse_slots(slots),
        occupied_slots=parse_slots(used),
        releasing_slots=parse_slots(leaving),
        **more,
    )


def agents(count: int, slots: str) -> tuple[AgentInfo, ...]:
    """Equal agents: a0, a1 and so on."""
    return tuple(agent(f"a{index}", slots) for index in range(count))


def kernel(name: str, slots: str = "", *, at: str | None = None, **more: Any) -> KernelWorkload:
    """A kernel that waits, or runs `at` an agent."""
    return KernelWorkload(KernelId(name), parse_slots(slots), agent=None if at is None else AgentId(at), **more)


def session(name: str, *kernels: KernelWorkload, **more: Any) -> SessionWorkload:
    """A session of these kernels; the queue is `default` if not given."""
    if "queue" in more:
        more["queue"] = QueueName(more["queue"])
    return SessionWorkload(SessionId(name), kernels, **more)


def gang(name: str, count: int, slots: str, **more: Any) -> SessionWorkload:
    """A session of equal kernels: name-0, name-1 and so on."""
    return session(name, *(kernel(f"{name}-{index}", slots) for index in range(count)), **more)


def owner(user: str) -> Owner:
    """A user with a keypair of the same name."""
    return Owner(user=user, access_key=AccessKey(user))


def queue(name: str, *, parent: str = ROOT_QUEUE, **more: Any) -> Queue:
    """A queue; capability, deserved and guarantee are written as slots."""
    for key, kind in (("capability", SlotLimits), ("deserved", SlotLimits), ("guarantee", ResourceSlot)):
        if key in more:
            more[key] = kind(dict(parse_slots(more[key])))
    return Queue(QueueName(name), parent=QueueName(parent), **more)


def rack(name: str, *members: str, tier: int = 1, tier_name: str | None = None) -> HyperNode:
    """A HyperNode over agents, or over HyperNodes of lower tiers."""
    return HyperNode(name, tier, members, tier_name)


def hard(highest: int | str | None = None) -> TopologyConstraint:
    """A hard topology: one HyperNode of at most this tier."""
    return TopologyConstraint(TopologyMode.HARD, highest)


def soft() -> TopologyConstraint:
    """A soft topology."""
    return TopologyConstraint(TopologyMode.SOFT)


def limited(user: str, **limits: Any) -> dict[Scope, dict[str, ResourcePolicy]]:
    """Limits on the keypair of one user; slots are written as slots."""
    for key in ("slots_max", "pending_slots_max"):
        if key in limits:
            limits[key] = SlotLimits(dict(parse_slots(limits[key])))
    return {Scope.KEYPAIR: {user: ResourcePolicy("policy", **limits)}}


def using(user: str, slots: str, sessions: int = 0) -> dict[Scope, dict[str, OwnerUsage]]:
    """The current usage of a user and its keypair."""
    usage = OwnerUsage(parse_slots(slots), sessions)
    return {Scope.KEYPAIR: {user: usage}, Scope.USER: {user: usage}}


class EngineParts:
    """The objects of one cycle over some agents, for tests of single modules."""

    def __init__(
        self,
        *machines: AgentInfo,
        hypernodes: Iterable[HyperNode] = (),
        queues: Iterable[Queue] = (),
        plugins: Iterable[SchedulingPlugin] = (),
        policy: str = CAPACITY,
        own_shard: str | None = None,
        hard_shards: bool = False,
    ) -> None:
        tree = HyperNodeTree((machine.agent_id for machine in machines), hypernodes)
        self.workspace = Workspace(machines, tree, ())
        self.table = ShapeTable(self.workspace, own_shard=own_shard, hard_shards=hard_shards)
        selector = ConcentratedSelector()
        self.choice = KeyedChoice(
            self.table, rank=selector.static_rank(self.workspace), weight=selector.weight, fills=True
        )
        self.queue_usage = QueueUsage(
            queues, policy=policy, hierarchy=False, total=self.workspace.total(), slots=self.workspace.slots
        )
        self.queue_usage.settle()
        self.context = CycleContext(self.workspace, self.choice, self.queue_usage, Extensions(plugins))

    @property
    def all_agents(self) -> range:
        """The rows of all agents."""
        return self.context.all_agents

    def statement(self) -> Statement:
        """An empty statement."""
        return Statement(self.workspace, self.choice)

    def batch(self, slots: str, count: int = 1) -> KernelBatch:
        """A batch of equal kernels, at least one."""
        kernels = [kernel(f"k{index}", slots) for index in range(max(1, count))]
        return KernelBatch(self.table.of(kernels[0]), kernels)

    def place(self, slots: str, agent: str) -> None:
        """Place one kernel on an agent."""
        batch = self.batch(slots)
        self.statement().place(batch, batch.kernels, self.row(agent))

    def reserve(self, slots: str, agent: str) -> None:
        """Reserve room for one kernel on an agent."""
        batch = self.batch(slots)
        self.statement().reserve(batch, batch.kernels[0], self.row(agent))

    def shape(self, slots: str, **more: Any) -> Shape:
        """The shape of a kernel with this request."""
        return self.table.of(kernel("any", slots, **more))

    def pending(self, work: SessionWorkload, nominations: Mapping[str, str] | None = None) -> PendingSession:
        """A pending session."""
        return PendingSession(work, self.queue_usage.node(work.queue), BatchingContext(self.table, nominations or {}))

    def row(self, name: str) -> int:
        """The row of an agent."""
        return self.workspace.position[name]

    def idle(self, name: str) -> dict[str, int]:
        """The free amounts of an agent, by slot."""
        return dict(zip(self.workspace.slots, self.workspace.idle[self.row(name)].tolist(), strict=False))

    def future(self, name: str) -> dict[str, int]:
        """The future free amounts of an agent, by slot."""
        return dict(zip(self.workspace.slots, self.workspace.future[self.row(name)].tolist(), strict=False))


def snapshot(machines: Iterable[AgentInfo], *sessions: SessionWorkload, **more: Any) -> SystemSnapshot:
    """Agents and sessions; sessions were submitted in the order in which they are listed."""
    aged = tuple(replace(work, submitted=index) for index, work in enumerate(sessions))
    return SystemSnapshot(agents=tuple(machines), sessions=aged, **more)


def planned(
    given: SystemSnapshot, *plugins: SchedulingPlugin, registry: PluginRegistry = BUILT_IN, **profile: Any
) -> SchedulingPlan:
    """The plan of one cycle; by capacity, so that queues without limits do not matter by default."""
    profile.setdefault("queue_policy", CAPACITY)
    added = {plugin.name: lambda plugin=plugin: plugin for plugin in plugins}
    known = PluginRegistry(registry.validators, registry.sequencers, registry.selectors, {**registry.plugins, **added})
    return schedule(given, SchedulingProfile(plugins=tuple(added), **profile), known)


def seats(plan: SchedulingPlan) -> dict[str, str]:
    """The agent of each placed kernel."""
    return {placement.kernel_id: placement.agent_id for placement in plan.placements}


def placed(plan: SchedulingPlan) -> dict[str, int]:
    """How many kernels of each session were placed."""
    return dict(Counter(placement.session_id for placement in plan.placements))


def reserved(plan: SchedulingPlan) -> dict[str, list[tuple[str, str]]]:
    """The reserved kernels of each session, with their agents."""
    return {reservation.session_id: list(reservation.kernels) for reservation in plan.reservations}


def code(plan: SchedulingPlan, name: str) -> str:
    """The code of one session's verdict."""
    return plan.trace[SessionId(name)].code.value
