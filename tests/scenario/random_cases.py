"""Random small clusters, drawn by hypothesis, and queries on their plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import Queue, QueueState
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import Partition, TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile, profile_of
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.simulator.scenario import Scenario
from sokovan.simulator.simulation import initial_state

T = TypeVar("T")
Seat = tuple[KernelId, AgentId]


class Dice(Protocol):
    """The two throws that are needed; `random.Random` has them."""

    def choice(self, options: Sequence[T], /) -> T: ...
    def randint(self, low: int, high: int, /) -> int: ...


@dataclass(frozen=True)
class Features:
    """The features that the clusters of one property may have."""

    bare: bool = True  # kernels that ask for nothing
    parts: bool = True  # kernel groups by label
    closeness: bool = True  # sessions with a topology
    owners: bool = True  # limits on owners, dependencies
    queues: bool = True  # several queues, with limits
    running: bool = True  # work that runs already, on agents of any status, some of it on its way out


ALL = Features()


@dataclass(frozen=True)
class Case:
    """A snapshot that carries its own policy, and the plan for it."""

    snapshot: SystemSnapshot

    @property
    def profile(self) -> SchedulingProfile:
        return profile_of(self.snapshot.scaling_group)

    @cached_property
    def plan(self) -> SchedulingPlan:
        return schedule(self.snapshot, self.profile)

    @cached_property
    def kernels(self) -> dict[KernelId, KernelWorkload]:
        return {kernel.kernel_id: kernel for session in self.snapshot.sessions for kernel in session.kernels}

    @property
    def placed(self) -> list[Seat]:
        return [(placement.kernel_id, placement.agent_id) for placement in self.plan.placements]

    @property
    def held(self) -> list[Seat]:
        return [seat for reservation in self.plan.reservations for seat in reservation.kernels]

    def taken(self, seats: Iterable[Seat]) -> dict[AgentId, Counter[str]]:
        """The slots that these kernels take from each agent, places for kernels included."""
        rows: dict[AgentId, Counter[str]] = {}
        for kernel_id, agent_id in seats:
            rows.setdefault(agent_id, Counter()).update({**self.kernels[kernel_id].slots, "kernels": 1})
        return rows

    def homes(self, kernel: KernelWorkload, *, reserved: bool = False) -> list[AgentId]:
        """The agents that could take a kernel after all that the plan does, and beside all that it holds.

        A reservation takes what is idle before what is being released: with `reserved`, idle
        room that it holds is no room.
        """
        later = self.taken([*self.placed, *self.held])
        now = later if reserved else self.taken(self.placed)
        asked = {**kernel.slots, "kernels": 1}
        return [
            agent.agent_id
            for agent in self.snapshot.agents
            if suits(kernel, agent)
            and all(
                free(agent, later=soon)[slot] - rows.get(agent.agent_id, Counter[str]())[slot] >= amount
                for soon, rows in ((False, now), (True, later))
                for slot, amount in asked.items()
            )
        ]


def free(agent: AgentInfo, *, later: bool) -> Counter[str]:
    """The free slots of an agent, now or after all releases; places for kernels included."""
    left = Counter(dict(agent.available_slots))
    left.subtract(dict(agent.occupied_slots))
    places = 10**6 if agent.kernels_max is None else agent.kernels_max
    left["kernels"] = places - agent.kernel_count + (agent.releasing_count if later else 0)
    if later:
        left.update(dict(agent.releasing_slots))
    return left


def suits(kernel: KernelWorkload, agent: AgentInfo) -> bool:
    """Whether everything but room speaks for a kernel on an agent."""
    labelled = all(agent.labels.get(name) == value for name, value in kernel.require.items())
    return agent.status is AgentStatus.ALIVE and agent.architecture == kernel.architecture and labelled


def cases(features: Features = ALL) -> st.SearchStrategy[Case]:
    """Snapshots as a real system would have them: what runs is what is occupied and used.

    The dice are seeded by hypothesis: thousands of clusters in seconds, the same on every machine.
    """
    return st.randoms(use_true_random=True).map(lambda dice: thrown(dice, features))


def thrown(dice: Dice, features: Features) -> Case:
    """One cluster."""
    agents = [_agent(dice, index) for index in range(dice.randint(1, 6))]
    sessions = [_session(dice, f"s{number}", number // 2, features) for number in range(dice.randint(1, 6))]
    if features.running:
        sessions = _settled(dice, agents, sessions)
    scenario = Scenario(
        name="thrown",
        file="",
        line=1,
        profile=SchedulingProfile(),
        cycles=1,
        agents=tuple(agents),
        hypernodes=_hypernodes(dice, agents) if features.closeness else (),
        queues=tuple(_queue(dice, number) for number in range(3)) if features.queues else (),
        sessions=tuple(sessions),
        expect={},
        limits=_limits(dice) if features.owners else {},
    )
    return Case(replace(initial_state(scenario).snapshot(), scaling_group=_group(dice)))


def _group(dice: Dice) -> ScalingGroup:
    options: dict[str, object] = {
        "agent_selector": dice.choice(["concentrated", "concentrated", "dispersed", "roundrobin", "legacy"]),
        "queue_policy": dice.choice(["proportion", "capacity"]),
        "hierarchy": dice.choice([True, False]),
        "actions": dice.choice([["allocate", "backfill"], ["allocate", "backfill"], ["enqueue", "allocate"]]),
    }
    name = dice.choice(["fifo", "lifo", "drf", "fair-share"])
    return ScalingGroup(ScalingGroupName("default"), scheduler=name, scheduler_opts=options)


def _slots(dice: Dice, cpu: int, gpu: int) -> ResourceSlot:
    return ResourceSlot({"cpu": dice.randint(1, cpu), "cuda.device": max(0, dice.randint(-gpu, gpu))})


def _agent(dice: Dice, index: int) -> AgentInfo:
    return AgentInfo(
        AgentId(f"a{index}"),
        _slots(dice, 12, 6),
        architecture=dice.choice(["x86_64", "x86_64", "x86_64", "aarch64"]),
        labels={"zone": dice.choice("xy")},
        kernels_max=dice.choice([None, None, None, 0, 2, 5]),
        status=dice.choice([AgentStatus.ALIVE] * 6 + [AgentStatus.DRAINING, AgentStatus.LOST]),
    )


def _hypernodes(dice: Dice, agents: list[AgentInfo]) -> tuple[HyperNode, ...]:
    racks: dict[int, list[str]] = {}
    for agent in agents:
        racks.setdefault(dice.randint(0, 4), []).append(agent.agent_id)
    racks.pop(0, None)  # these agents are outside of every rack
    nodes = [HyperNode(f"r{rack}", 1, tuple(members), "rack") for rack, members in sorted(racks.items())]
    inside = tuple(node.name for node in nodes if dice.randint(0, 2))
    return (*nodes, HyperNode("row", 2, inside, "row")) if inside else tuple(nodes)


def _queue(dice: Dice, number: int) -> Queue:
    promised = max(0, dice.randint(-4, 2))
    deserved, capability = dice.choice([None, promised, promised + 4]), dice.choice([None, None, promised + 4, 12])
    return Queue(
        QueueName(f"q{number}"),
        weight=dice.randint(1, 4),
        priority=dice.randint(0, 1),
        state=dice.choice([QueueState.OPEN] * 12 + [QueueState.CLOSED]),
        parent=QueueName(dice.choice(["root", "root", "root", "q0"]) if number else "root"),
        capability=SlotLimits({} if capability is None else {"cpu": capability}),
        deserved=SlotLimits({} if deserved is None else {"cpu": deserved}),
        guarantee=ResourceSlot({"cpu": promised}),
    )


def _closeness(dice: Dice) -> TopologyConstraint | None:
    hard = TopologyConstraint(TopologyMode.HARD, dice.choice([1, 1, 2, 3, "rack", "row", "pod", None]))
    return dice.choice([None, None, TopologyConstraint(TopologyMode.SOFT), hard])


def _session(dice: Dice, name: str, submitted: int, features: Features) -> SessionWorkload:
    user = dice.choice(["alice", "bob"])
    part = Partition("part", "part", dice.randint(1, 2), dice.randint(0, 2), _closeness(dice))
    shapes = [_slots(dice, 5, 2), _slots(dice, 3, 1)]
    kernels = tuple(_kernel(dice, f"{name}-{index}", shapes, features) for index in range(dice.randint(1, 5)))
    return SessionWorkload(
        SessionId(name),
        kernels,
        submitted=submitted,
        owner=Owner(user, dice.choice("gh"), "lab", AccessKey(user[0])),
        queue=QueueName(dice.choice(["q0", "q1", "q2", "q2", "q9"])) if features.queues else QueueName("default"),
        priority=dice.choice([0, 0, 1]),
        min_kernels=dice.choice([None, 0, 1, 1, min(2, len(kernels)), len(kernels)]),
        group_minimums=dice.choice([{}] * 6 + [{"m": 1}, {"m": 1, "w": 1}]),
        partitions=(part,) if features.parts and dice.randint(0, 2) == 0 else (),
        topology=_closeness(dice) if features.closeness else None,
        dependencies=(SessionId("gone"),) if features.owners and dice.randint(0, 19) == 0 else (),
    )


def _kernel(dice: Dice, name: str, shapes: Sequence[ResourceSlot], features: Features) -> KernelWorkload:
    bare = features.bare and dice.randint(0, 5) == 0
    return KernelWorkload(
        KernelId(name),
        ResourceSlot() if bare else dice.choice(shapes),
        group=dice.choice("mw"),
        architecture=dice.choice(["x86_64"] * 12 + ["aarch64"]),
        labels={"part": dice.choice("pq")} if features.parts else {},
        require=dice.choice([{}, {}, {}, {}, {"zone": "x"}]),
        priority=dice.choice([0, 0, 0, 1]),
        nominated=dice.choice([None] * 7 + [AgentId("a0")]),
    )


def _settled(dice: Dice, agents: list[AgentInfo], sessions: list[SessionWorkload]) -> list[SessionWorkload]:
    """Let some kernels run already, where they have room, and some of them be on their way out."""
    room: dict[AgentId, Counter[str]] = {agent.agent_id: free(agent, later=False) for agent in agents}
    moved = []
    for session in sessions:
        eager = dice.choice([0, 0, 1, 3])
        kernels = []
        for kernel in session.kernels:
            agent, asked = dice.choice(list(room)), {**kernel.slots, "kernels": 1}
            if dice.randint(0, 3) < eager and all(room[agent][slot] >= n for slot, n in asked.items()):
                room[agent].subtract(asked)
                kernels.append(replace(kernel, agent=agent))
            else:
                kernels.append(kernel)
        leaving = dice.choice([0, 0, 1, 4])
        moved.append(
            replace(
                session,
                kernels=tuple(
                    replace(k, releasing=k.agent is not None and dice.randint(0, 3) < leaving) for k in kernels
                ),
            )
        )
    return moved


def _limits(dice: Dice) -> dict[Scope, dict[str, ResourcePolicy]]:
    names: dict[Scope, Any] = {Scope.KEYPAIR: "a", Scope.USER: "alice", Scope.GROUP: "g", Scope.DOMAIN: "lab"}
    return {
        scope: {
            name: ResourcePolicy(
                "policy",
                SlotLimits({"cpu": dice.randint(0, 12)}),
                sessions_max=dice.choice([None, None, 1, 2]),
                pending_sessions_max=dice.choice([None, None, 2]),
            )
        }
        for scope, name in names.items()
        if dice.randint(0, 3) == 0
    }
