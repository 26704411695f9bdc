"""Snapshots as they would be after changes of the cluster, to compare plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.errors import InvalidSpec, ObjectNotFound, nearest
from sokovan.domain.ids import DEFAULT_QUEUE, AgentId, QueueName
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.slots import NO_SLOTS
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Code

MACHINES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class ClusterChanges:
    """Agents to drain, weights of queues, and how many machines like an agent to add.

    Raises InvalidSpec.
    """

    drain: frozenset[AgentId] = frozenset()
    weights: Mapping[QueueName, int] = field(default_factory=dict)
    add: Mapping[AgentId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        machines = sum(self.add.values())
        if any(count < 1 for count in self.add.values()) or machines > MACHINES_MAX:
            problem = f"must be at least 1 each, and {MACHINES_MAX} in all"
            raise InvalidSpec(what="what-if", field="add", value=machines, problem=problem)


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """A waiting session whose verdict differs, with its verdicts before and after."""

    session_id: str
    before: Code
    after: Code


def changed_snapshot(snapshot: SystemSnapshot, changes: ClusterChanges) -> SystemSnapshot:
    """The snapshot with the changes. Raises ObjectNotFound."""
    known = {agent.agent_id: agent for agent in snapshot.agents}
    for name in sorted(changes.drain | changes.add.keys()):
        if name not in known:
            raise ObjectNotFound(what="agent", name=name, hint=nearest(name, known))
    added = {
        like: [_machine(known[like], f"{like}-new-{number}") for number in range(1, count + 1)]
        for like, count in changes.add.items()
    }
    agents = [
        replace(agent, status=AgentStatus.DRAINING) if agent.agent_id in changes.drain else agent
        for agent in snapshot.agents
    ]
    return replace(
        snapshot,
        agents=(*agents, *(machine for machines in added.values() for machine in machines)),
        hypernodes=tuple(_with_machines(node, added) for node in snapshot.hypernodes),
        queues=_weighed(snapshot.queues, changes.weights),
    )


def _machine(like: AgentInfo, name: str) -> AgentInfo:
    """An empty machine like another one."""
    return replace(
        like,
        agent_id=AgentId(name),
        status=AgentStatus.ALIVE,
        occupied_slots=NO_SLOTS,
        releasing_slots=NO_SLOTS,
        kernel_count=0,
        releasing_count=0,
        leased_ports=(),
    )


def _with_machines(node: HyperNode, added: Mapping[AgentId, list[AgentInfo]]) -> HyperNode:
    """New machines are in the HyperNode of the one that they are like."""
    more = [machine.agent_id for like, machines in added.items() if like in node.members for machine in machines]
    return replace(node, members=(*node.members, *more)) if more else node


def _weighed(queues: tuple[Queue, ...], weights: Mapping[QueueName, int]) -> tuple[Queue, ...]:
    known = {queue.name: queue for queue in queues}
    # It exists without having been set.
    known.setdefault(DEFAULT_QUEUE, Queue(DEFAULT_QUEUE))
    for name in weights:
        if name not in known:
            raise ObjectNotFound(what="queue", name=name, hint=nearest(name, known))
    names = [*(queue.name for queue in queues), *(name for name in weights if name not in {q.name for q in queues})]
    return tuple(replace(known[name], weight=weights.get(name, known[name].weight)) for name in names)


def differences(before: SchedulingPlan, after: SchedulingPlan) -> list[PlanDifference]:
    """The sessions whose verdict differs; those that start or no longer do come first."""
    then = {verdict.session_id: verdict.code for verdict in after.verdicts}
    found = [
        PlanDifference(verdict.session_id, verdict.code, then[verdict.session_id])
        for verdict in before.verdicts
        if then.get(verdict.session_id, verdict.code) is not verdict.code
    ]
    return sorted(found, key=lambda one: Code.PLACED not in {one.before, one.after})
