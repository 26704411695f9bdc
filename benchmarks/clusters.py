"""Snapshots for the benchmarks of the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, SessionId
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import Partition, TopologyConstraint, TopologyMode
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, SlotLimits
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot

GiB = 1 << 30
MACHINE = ResourceSlot({"cpu": 64_000, "mem": 512 * GiB, "cuda.device": 8})
ONE_GPU = ResourceSlot({"cpu": 4_000, "mem": 32 * GiB, "cuda.device": 1})
EIGHT_GPU = ResourceSlot({"cpu": 32_000, "mem": 256 * GiB, "cuda.device": 8})
HARD_TIER_1 = TopologyConstraint(TopologyMode.HARD, 1)


@dataclass(frozen=True)
class Case:
    """One benchmark: its snapshot, its profile and its goal."""

    name: str
    goal: str
    make: Callable[[], SystemSnapshot]
    profile: SchedulingProfile = field(default_factory=SchedulingProfile)


def agents(count: int, *, used: ResourceSlot = NO_SLOTS) -> tuple[AgentInfo, ...]:
    """Identical agents of eight GPUs."""
    return tuple(
        AgentInfo(agent_id=AgentId(f"a{index:05}"), available_slots=MACHINE, occupied_slots=used)
        for index in range(count)
    )


def owner(index: int, users: int) -> Owner:
    """The users in turn; shifted by one every ten, so that each has sessions of every kind."""
    number = (index + index // 10) % users
    return Owner(user=f"u{number:03}", access_key=AccessKey(f"key-u{number:03}"), group=f"g{number % 10}")


def limits(users: int) -> dict[Scope, dict[str, ResourcePolicy]]:
    """Limits on every keypair, user, group and domain; all are checked, none is reached."""
    wide = SlotLimits({"cuda.device": 10**6})
    policy = ResourcePolicy(
        name="wide", slots_max=wide, sessions_max=10**6, pending_sessions_max=10**6, pending_slots_max=wide
    )
    owners = [owner(index, users) for index in range(users * 10)]
    return {
        Scope.KEYPAIR: {str(o.access_key): policy for o in owners},
        Scope.USER: {o.user: policy for o in owners},
        Scope.GROUP: {o.group: policy for o in owners},
        Scope.DOMAIN: {o.domain: policy for o in owners},
    }


def session(
    index: int, slots: ResourceSlot, *, kernels: int = 1, users: int = 50, queue: str = "default"
) -> SessionWorkload:
    """A session of identical kernels."""
    name = f"s{index:06}"
    return SessionWorkload(
        session_id=SessionId(name),
        kernels=tuple(KernelWorkload(KernelId(f"{name}.{k}"), slots) for k in range(kernels)),
        submitted=index,
        owner=owner(index, users),
        queue=QueueName(queue),
    )


def uniform(machines: int, sessions: int) -> SystemSnapshot:
    """Identical one-GPU sessions."""
    return SystemSnapshot(
        agents=agents(machines), sessions=tuple(session(i, ONE_GPU) for i in range(sessions)), limits=limits(50)
    )


def shapes() -> SystemSnapshot:
    """Ten thousand sessions of a hundred shapes."""
    kinds = [
        ResourceSlot({"cpu": 500 + 250 * (i % 20), "mem": (1 + i // 5) * GiB, "cuda.device": i % 3}) for i in range(100)
    ]
    return SystemSnapshot(
        agents=agents(10_000),
        sessions=tuple(session(i, kinds[i % 100]) for i in range(10_000)),
        limits=limits(50),
    )


def gangs(count: int, kernels: int, machines: int) -> SystemSnapshot:
    """Gangs of identical one-GPU kernels."""
    return SystemSnapshot(
        agents=agents(machines),
        sessions=tuple(session(i, ONE_GPU, kernels=kernels) for i in range(count)),
        limits=limits(50),
    )


def topology() -> SystemSnapshot:
    """6,000 agents in three tiers, 9,600 HyperNodes in all, two thirds full; one hard gang of 24 kernels."""
    machines = [
        AgentInfo(
            agent_id=AgentId(f"a{index:05}"),
            available_slots=MACHINE,
            occupied_slots=EIGHT_GPU if index % 3 else NO_SLOTS,
        )
        for index in range(6_000)
    ]
    leaves = [HyperNode(f"leaf-{i:05}", 1, (f"a{i:05}",)) for i in range(6_000)]
    racks = [HyperNode(f"rack-{i:05}", 2, (f"leaf-{2 * i:05}", f"leaf-{2 * i + 1:05}")) for i in range(3_000)]
    rows = [HyperNode(f"row-{i:04}", 3, tuple(f"rack-{5 * i + k:05}" for k in range(5))) for i in range(600)]
    gang = session(0, ONE_GPU, kernels=24)
    hard = SessionWorkload(
        gang.session_id, gang.kernels, owner=gang.owner, topology=TopologyConstraint(TopologyMode.HARD, 3)
    )
    return SystemSnapshot(
        agents=tuple(machines), sessions=(hard,), hypernodes=(*leaves, *racks, *rows), limits=limits(50)
    )


def topology_groups() -> SystemSnapshot:
    """1,000 agents in 100 leaves; one hard session of 100 kernel groups of 10, each hard in a leaf."""
    leaves = [HyperNode(f"leaf-{i:03}", 1, tuple(f"a{10 * i + k:05}" for k in range(10))) for i in range(100)]
    top = HyperNode("hall", 2, tuple(leaf.name for leaf in leaves))
    kernels = tuple(
        KernelWorkload(KernelId(f"k{group:03}.{k}"), EIGHT_GPU, labels={"stage": f"g{group:03}"})
        for group in range(100)
        for k in range(10)
    )
    work = SessionWorkload(
        session_id=SessionId("pipeline"),
        owner=owner(0, 50),
        kernels=kernels,
        partitions=(Partition("stages", "stage", size=10, min_groups=100, topology=HARD_TIER_1),),
        topology=TopologyConstraint(TopologyMode.HARD, 2),
    )
    return SystemSnapshot(agents=agents(1_000), sessions=(work,), hypernodes=(*leaves, top), limits=limits(50))


def queues_tree() -> SystemSnapshot:
    """200 leaf queues in a tree of four levels, 20,000 sessions, 1,000 agents."""
    queues = [Queue(name=QueueName(f"q{a}"), weight=1 + a) for a in range(5)]
    queues += [Queue(name=QueueName(f"q{a}.{b}"), parent=QueueName(f"q{a}")) for a in range(5) for b in range(5)]
    inner = [(a, b) for a in range(5) for b in range(5)]
    queues += [
        Queue(name=QueueName(f"q{a}.{b}.{c}"), parent=QueueName(f"q{a}.{b}")) for a, b in inner for c in range(2)
    ]
    queues += [
        Queue(name=QueueName(f"q{a}.{b}.{c}.{d}"), parent=QueueName(f"q{a}.{b}.{c}"), weight=1 + d)
        for a, b in inner
        for c in range(2)
        for d in range(4)
    ]
    leaves = [str(queue.name) for queue in queues if str(queue.name).count(".") == 3]
    return SystemSnapshot(
        agents=agents(1_000),
        queues=tuple(queues),
        sessions=tuple(session(i, ONE_GPU, queue=leaves[i % len(leaves)]) for i in range(20_000)),
        limits=limits(50),
    )


def hopeless() -> SystemSnapshot:
    """10,000 sessions of 100 shapes, none of which fits: every agent has less than a fifth of a core free."""
    full = ResourceSlot({"cpu": 63_900, "mem": 511 * GiB, "cuda.device": 8})
    kinds = [ResourceSlot({"cpu": 200 + i, "mem": GiB, "cuda.device": i % 8}) for i in range(100)]
    return SystemSnapshot(
        agents=agents(1_000, used=full),
        sessions=tuple(session(i, kinds[i % 100]) for i in range(10_000)),
        limits=limits(50),
    )


def mixed() -> SystemSnapshot:
    """60 % one GPU, 30 % eight GPU, 10 % gangs of eight times eight; 200 users, 2,000 agents."""
    sessions = []
    for index in range(2_400):
        kind = index % 10
        if kind < 6:
            sessions.append(session(index, ONE_GPU, users=200))
        elif kind < 9:
            sessions.append(session(index, EIGHT_GPU, users=200))
        else:
            sessions.append(session(index, EIGHT_GPU, kernels=8, users=200))
    return SystemSnapshot(agents=agents(2_000), sessions=tuple(sessions), limits=limits(200))


CASES = (
    Case("uniform-1k", ">= 40,000 placements/s", lambda: uniform(1_000, 8_000)),
    Case("uniform-10k", ">= 25,000 placements/s", lambda: uniform(10_000, 10_000)),
    Case("shapes-10k", ">= 12,000 placements/s", shapes),
    Case("gangs-1k", ">= 50,000 kernels/s", lambda: gangs(500, 16, 1_000)),
    Case("gang-256", "<= 10 ms", lambda: gangs(1, 256, 1_000)),
    Case("gang-10000", "<= 200 ms", lambda: gangs(1, 10_000, 10_000)),
    Case("topology-6k", "<= 100 ms", topology),
    Case("topology-groups", "<= 200 ms", topology_groups),
    Case("queues-tree", ">= 10,000 placements/s", queues_tree, SchedulingProfile(hierarchy=True)),
    Case("hopeless", "<= 0.5 s a cycle", hopeless),
    Case("mixed", ">= 15,000 kernels/s", mixed, SchedulingProfile(sequencer="drf")),
)
