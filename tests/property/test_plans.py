"""Laws of every plan, on random small clusters: what may never happen, and what changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sokovan.domain.agent import AgentInfo
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.policy import ResourcePolicy, Scope
from sokovan.domain.queue import Queue, QueueState
from sokovan.domain.scaling_group import ScalingGroup
from sokovan.domain.session import Partition, TopologyConstraint, TopologyMode
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, SlotLimits, total
from sokovan.domain.tenancy import Owner
from sokovan.domain.topology import HyperNode
from sokovan.scheduling.codec import plan_from_json, plan_to_json, snapshot_from_json, snapshot_to_json
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile, profile_of
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from sokovan.simulator.scenario import Scenario
from sokovan.simulator.world import begin

ROOM = {Code.NOT_ENOUGH_FREE, Code.FRAGMENTED, Code.RESERVED_FOR_GANG}


@dataclass(frozen=True)
class Features:
    """What the random clusters of one law may have."""

    bare: bool = True  # kernels that ask for nothing
    parts: bool = True  # kernel groups by label
    closeness: bool = True  # sessions with a topology
    owners: bool = True  # limits on owners, dependencies
    queues: bool = True  # more than one queue, with limits
    running: bool = True  # work that runs already, on agents of any status, some of it on its way out


ALL = Features()


@dataclass(frozen=True)
class Case:
    """A snapshot that carries its own policy, and the plan for it."""

    snapshot: SystemSnapshot

    @property
    def profile(self) -> SchedulingProfile:
        return profile_of(self.snapshot.scaling_group)

    @property
    def plan(self) -> SchedulingPlan:
        return schedule(self.snapshot, self.profile)

    @property
    def kernels(self) -> dict[KernelId, KernelWorkload]:
        return {kernel.kernel_id: kernel for session in self.snapshot.sessions for kernel in session.kernels}


# ---------------------------------------------------------------------------------------------------------------
# Random clusters


def amounts(most_cpu: int, most_gpu: int) -> st.SearchStrategy[ResourceSlot]:
    return st.builds(
        lambda cpu, gpu: ResourceSlot({"cpu": cpu, "cuda.device": gpu}),
        st.integers(1, most_cpu),
        st.integers(0, most_gpu),
    )


def some_agents() -> st.SearchStrategy[list[AgentInfo]]:
    one = st.builds(
        lambda slots, arch, zone, most, status: AgentInfo(
            AgentId("a"),
            slots,
            architecture=arch,
            labels={"zone": zone},
            kernels_max=most,
            status=status,
        ),
        amounts(8, 4),
        st.sampled_from(["x86_64", "x86_64", "aarch64"]),
        st.sampled_from(["x", "y"]),
        st.sampled_from([None, None, 0, 2, 5]),
        st.sampled_from([AgentStatus.ALIVE] * 4 + [AgentStatus.DRAINING, AgentStatus.LOST]),
    )
    numbered = st.lists(one, min_size=1, max_size=6)
    return numbered.map(lambda drawn: [replace(agent, agent_id=AgentId(f"a{i}")) for i, agent in enumerate(drawn)])


@st.composite
def some_hypernodes(draw: st.DrawFn, agents: list[AgentInfo]) -> tuple[HyperNode, ...]:
    racks: dict[int, list[str]] = {}
    for agent in agents:
        racks.setdefault(draw(st.integers(0, 3)), []).append(agent.agent_id)
    racks.pop(0, None)  # these agents are outside of every rack
    nodes = [HyperNode(f"r{rack}", 1, tuple(members), "rack") for rack, members in sorted(racks.items())]
    inside = [node.name for node in nodes if draw(st.booleans())]
    return (*nodes, HyperNode("row", 2, tuple(inside), "row")) if inside else tuple(nodes)


@st.composite
def some_queues(draw: st.DrawFn) -> tuple[Queue, ...]:
    queues = []
    for number in range(3):
        promised = draw(st.integers(0, 2))
        deserved = draw(st.sampled_from([None, promised, promised + 4]))
        capability = draw(st.sampled_from([None, None, promised + 4, 12]))
        queues.append(
            Queue(
                QueueName(f"q{number}"),
                weight=draw(st.integers(1, 4)),
                priority=draw(st.integers(0, 1)),
                state=draw(st.sampled_from([QueueState.OPEN] * 5 + [QueueState.CLOSED])),
                parent=QueueName(draw(st.sampled_from(["root", "root", "q0"] if number else ["root"]))),
                capability=SlotLimits({} if capability is None else {"cpu": capability}),
                deserved=SlotLimits({} if deserved is None else {"cpu": deserved}),
                guarantee=ResourceSlot({"cpu": promised}),
            )
        )
    return tuple(queues)


def closeness() -> st.SearchStrategy[TopologyConstraint | None]:
    hard = st.builds(TopologyConstraint, st.just(TopologyMode.HARD), st.sampled_from([1, 2, 3, "rack", "pod", None]))
    return st.one_of(st.none(), st.just(TopologyConstraint(TopologyMode.SOFT)), hard)


@st.composite
def some_kernels(draw: st.DrawFn, name: str, features: Features) -> list[KernelWorkload]:
    shapes = draw(st.lists(amounts(5, 2), min_size=1, max_size=2))
    if features.bare:
        shapes.append(NO_SLOTS)
    kernels = []
    for index in range(draw(st.integers(1, 5))):
        kernels.append(
            KernelWorkload(
                KernelId(f"{name}-{index}"),
                draw(st.sampled_from(shapes)),
                group=draw(st.sampled_from(["m", "w"])),
                architecture=draw(st.sampled_from(["x86_64"] * 4 + ["aarch64"])),
                labels={"part": draw(st.sampled_from("pq"))} if features.parts else {},
                require=draw(st.sampled_from([{}, {}, {}, {"zone": "x"}])),
                priority=draw(st.integers(0, 1)),
                nominated=draw(st.sampled_from([None] * 5 + [AgentId("a0")])),
            )
        )
    return kernels


@st.composite
def some_sessions(draw: st.DrawFn, features: Features) -> list[SessionWorkload]:
    sessions = []
    for number in range(draw(st.integers(1, 5))):
        kernels = draw(some_kernels(f"s{number}", features))
        user = draw(st.sampled_from(["alice", "bob"]))
        parts = (
            Partition("part", "part", draw(st.integers(1, 2)), draw(st.integers(0, 2)), draw(closeness()))
            if features.parts and draw(st.booleans())
            else None
        )
        sessions.append(
            SessionWorkload(
                SessionId(f"s{number}"),
                tuple(kernels),
                submitted=number // 2,
                owner=Owner(user, draw(st.sampled_from(["g", "h"])), "lab", AccessKey(user[0])),
                queue=QueueName(draw(st.sampled_from(["q0", "q1", "q2", "q9"])) if features.queues else "default"),
                priority=draw(st.integers(0, 2)),
                min_kernels=draw(st.sampled_from([None, 0, 1, 2, 3])),
                group_minimums=draw(st.sampled_from([{}, {}, {"m": 1}, {"m": 1, "w": 1}])),
                partitions=() if parts is None else (parts,),
                topology=draw(closeness()) if features.closeness else None,
                dependencies=(SessionId("gone"),) if features.owners and draw(st.integers(0, 9)) == 0 else (),
            )
        )
    return sessions


def settled(draw: st.DrawFn, agents: list[AgentInfo], sessions: list[SessionWorkload]) -> list[SessionWorkload]:
    """Let some of the kernels run already, where they have room."""
    room = {agent.agent_id: dict(agent.available_slots) for agent in agents}
    places = {agent.agent_id: 99 if agent.kernels_max is None else agent.kernels_max for agent in agents}
    moved = []
    for session in sessions:
        kernels = []
        for kernel in session.kernels:
            agent = draw(st.sampled_from([None, None, *room]))
            free = room.get(agent, {}) if agent is not None else {}
            if agent is None or not places[agent] or any(free.get(s, 0) < n for s, n in kernel.slots.items()):
                kernels.append(kernel)
                continue
            places[agent] -= 1
            room[agent] = {slot: amount - kernel.slots[slot] for slot, amount in free.items()}
            kernels.append(replace(kernel, agent=agent, releasing=draw(st.booleans())))
        moved.append(replace(session, kernels=tuple(kernels)))
    return moved


def some_limits() -> st.SearchStrategy[dict[Scope, dict[str, ResourcePolicy]]]:
    policy = st.builds(
        lambda cpu, sessions, pending: ResourcePolicy(
            "p", SlotLimits({"cpu": cpu}), sessions_max=sessions, pending_sessions_max=pending
        ),
        st.integers(0, 12),
        st.sampled_from([None, None, 1, 2]),
        st.sampled_from([None, None, 2]),
    )
    names = {Scope.KEYPAIR: "a", Scope.USER: "alice", Scope.GROUP: "g", Scope.DOMAIN: "lab"}
    return st.fixed_dictionaries(
        {}, optional={scope: policy.map(lambda one, name=name: {name: one}) for scope, name in names.items()}
    )


def some_policy() -> st.SearchStrategy[dict[str, Any]]:
    actions = [["allocate", "backfill"]] * 3 + [["enqueue", "allocate"], ["backfill", "allocate"]]
    return st.fixed_dictionaries({
        "sequencer": st.sampled_from(["fifo", "lifo", "drf", "fair-share"]),
        "agent_selector": st.sampled_from(["concentrated", "dispersed", "roundrobin", "legacy"]),
        "queue_policy": st.sampled_from(["proportion", "capacity"]),
        "hierarchy": st.booleans(),
        "actions": st.sampled_from(actions),
    })


@st.composite
def cases(draw: st.DrawFn, features: Features = ALL) -> Case:
    """A snapshot as a real system would have it: what runs is what is occupied and used."""
    agents, policy = draw(some_agents()), draw(some_policy())
    sessions = draw(some_sessions(features))
    if features.running:
        sessions = settled(draw, agents, sessions)
    scenario = Scenario(
        name="drawn",
        file="",
        line=1,
        profile=SchedulingProfile(),
        cycles=1,
        agents=tuple(agents),
        hypernodes=draw(some_hypernodes(agents)) if features.closeness else (),
        queues=draw(some_queues()) if features.queues else (),
        sessions=tuple(sessions),
        expect={},
        limits=draw(some_limits()) if features.owners else {},
    )
    group = ScalingGroup(ScalingGroupName("default"), scheduler=policy.pop("sequencer"), scheduler_opts=policy)
    return Case(replace(begin(scenario).snapshot(), scaling_group=group))


def free(agent: AgentInfo, *, later: bool) -> Counter[str]:
    """What an agent has left, now or once everything on its way out has gone; places for kernels included."""
    left = Counter(dict(agent.available_slots))
    left.subtract(dict(agent.occupied_slots))
    places = 10**6 if agent.kernels_max is None else agent.kernels_max
    left["kernels"] = places - agent.kernel_count + (agent.releasing_count if later else 0)
    if later:
        left.update(dict(agent.releasing_slots))
    return left


def taken(case: Case, seats: Iterator[tuple[KernelId, AgentId]]) -> dict[AgentId, Counter[str]]:
    """What these kernels take from each agent."""
    kernels, rows = case.kernels, dict[AgentId, Counter[str]]()
    for kernel_id, agent_id in seats:
        row = rows.setdefault(agent_id, Counter())
        row.update({**kernels[kernel_id].slots, "kernels": 1})
    return rows


def placed_seats(plan: SchedulingPlan) -> Iterator[tuple[KernelId, AgentId]]:
    return ((placement.kernel_id, placement.agent_id) for placement in plan.placements)


def held_seats(plan: SchedulingPlan) -> Iterator[tuple[KernelId, AgentId]]:
    return (seat for reservation in plan.reservations for seat in reservation.kernels)


def left_over(case: Case, plan: SchedulingPlan, agent: AgentInfo) -> Counter[str]:
    """What is idle on an agent after the plan, less what is held there for others."""
    now, later = free(agent, later=False), free(agent, later=True)
    now.subtract(taken(case, placed_seats(plan)).get(agent.agent_id, Counter()))
    later.subtract(taken(case, chain(placed_seats(plan), held_seats(plan))).get(agent.agent_id, Counter()))
    return Counter({slot: min(now[slot], later[slot]) for slot in now})


def suits(kernel: KernelWorkload, agent: AgentInfo) -> bool:
    labelled = all(agent.labels.get(name) == value for name, value in kernel.require.items())
    return agent.status is AgentStatus.ALIVE and agent.architecture == kernel.architecture and labelled
