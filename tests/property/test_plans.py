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
            idle = room.get(agent, {}) if agent is not None else {}
            if agent is None or not places[agent] or any(idle.get(s, 0) < n for s, n in kernel.slots.items()):
                kernels.append(kernel)
                continue
            places[agent] -= 1
            room[agent] = {slot: amount - kernel.slots[slot] for slot, amount in idle.items()}
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
    return st.fixed_dictionaries(
        {
            "sequencer": st.sampled_from(["fifo", "lifo", "drf", "fair-share"]),
            "agent_selector": st.sampled_from(["concentrated", "dispersed", "roundrobin", "legacy"]),
            "queue_policy": st.sampled_from(["proportion", "capacity"]),
            "hierarchy": st.booleans(),
            "actions": st.sampled_from(actions),
        }
    )


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


# ---------------------------------------------------------------------------------------------------------------
# What may never happen


@given(cases())
def test_a_plan_takes_no_more_than_is_idle_and_holds_no_more_than_will_be(case: Case) -> None:
    plan = case.plan
    now, later = taken(case, placed_seats(plan)), taken(case, chain(placed_seats(plan), held_seats(plan)))
    for agent in case.snapshot.agents:
        for rows, room in ((now, free(agent, later=False)), (later, free(agent, later=True))):
            for slot, amount in rows.get(agent.agent_id, {}).items():
                assert amount <= room[slot], (agent.agent_id, slot)


@given(cases())
def test_a_kernel_gets_one_place_where_it_may_go_and_only_if_it_waited(case: Case) -> None:
    plan, kernels = case.plan, case.kernels
    agents = {agent.agent_id: agent for agent in case.snapshot.agents}
    seats = [*placed_seats(plan), *held_seats(plan)]
    assert len({kernel_id for kernel_id, _ in seats}) == len(seats)
    for kernel_id, agent_id in seats:
        assert kernels[kernel_id].agent is None
        assert suits(kernels[kernel_id], agents[agent_id])


@given(cases())
def test_a_session_that_was_not_ready_starts_with_all_its_minimums_or_not_at_all(case: Case) -> None:
    placed = {kernel_id for kernel_id, _ in placed_seats(case.plan)}
    for session in case.snapshot.sessions:
        new = [kernel for kernel in session.kernels if kernel.kernel_id in placed]
        if new:
            runs = [kernel for kernel in session.kernels if kernel.agent is not None and not kernel.releasing]
            # Best-effort kernels that still wait count for the gang: backfill brings them when there is a place.
            bare = [k for k in session.kernels if k.agent is None and not k.slots and k.kernel_id not in placed]
            assert ready(session, [*runs, *new, *bare]), session.session_id


def ready(session: SessionWorkload, kernels: list[KernelWorkload]) -> bool:
    groups = Counter(kernel.group for kernel in kernels)
    enough = len(kernels) >= session.gang_size
    return (
        enough
        and all(groups[group] >= least for group, least in session.group_minimums.items())
        and all(whole_groups(partition, kernels) >= partition.min_groups for partition in session.partitions)
    )


def whole_groups(partition: Partition, kernels: list[KernelWorkload]) -> int:
    sizes = Counter(kernel.labels.get(partition.by) for kernel in kernels)
    return sum(1 for value, size in sizes.items() if value is not None and size >= partition.size)


# Kernel groups and backfill pass limits on owners today: disputed.yaml has the scenarios.
@given(cases(Features(parts=False, bare=False)))
def test_what_starts_and_what_is_reserved_together_pass_no_limit_of_an_owner(case: Case) -> None:
    plan, kernels, new = case.plan, case.kernels, dict[tuple[Scope, str], Counter[str]]()
    owners = {kernel.kernel_id: session.owner for session in case.snapshot.sessions for kernel in session.kernels}
    for kernel_id, _ in chain(placed_seats(plan), held_seats(plan)):
        for key in scopes(owners[kernel_id]):
            new.setdefault(key, Counter()).update(kernels[kernel_id].slots)
    for (scope, name), asked in new.items():
        policy = case.snapshot.limits.get(scope, {}).get(name)
        if policy is not None:
            used = case.snapshot.usage.get(scope, {}).get(name)
            for slot, limit in policy.slots_max.items():
                if asked[slot]:
                    assert asked[slot] + (used.slots[slot] if used else 0) <= limit, (scope, name, slot)


@given(cases(Features(bare=False)))
def test_no_more_sessions_start_than_a_keypair_may_run(case: Case) -> None:
    snapshot, plan = case.snapshot, case.plan
    begun = {placement.session_id for placement in plan.placements} | {held.session_id for held in plan.reservations}
    new = Counter(
        session.owner.access_key
        for session in snapshot.sessions
        if session.session_id in begun
        and all(k.agent is None or k.releasing for k in session.kernels)
        # A session whose kernels all leave still counts as one that runs.
        and not any(kernel.releasing for kernel in session.kernels)
    )
    for name, count in new.items():
        policy = snapshot.limits.get(Scope.KEYPAIR, {}).get(name)
        used = snapshot.usage.get(Scope.KEYPAIR, {}).get(name)
        if policy is not None and policy.sessions_max is not None:
            assert count + (used.sessions if used else 0) <= policy.sessions_max


def scopes(owner: Owner) -> list[tuple[Scope, str]]:
    return [
        (Scope.KEYPAIR, owner.access_key),
        (Scope.USER, owner.user),
        (Scope.GROUP, owner.group),
        (Scope.DOMAIN, owner.domain),
    ]


# Best-effort kernels do not keep to a topology today: disputed.yaml has the scenario.
@given(cases(Features(bare=False)))
def test_a_hard_topology_holds_for_all_kernels_that_run_or_start(case: Case) -> None:
    where = dict(placed_seats(case.plan))
    for session in case.snapshot.sessions:
        fresh = {k.kernel_id for k in session.kernels if k.kernel_id in where}
        units = [(session.topology, list(session.kernels))]
        for part in session.partitions:
            values = {kernel.labels.get(part.by) for kernel in session.kernels} - {None}
            units += [(part.topology, [k for k in session.kernels if k.labels.get(part.by) == v]) for v in values]
        for constraint, kernels in units:
            if (
                constraint is not None
                and constraint.mode is TopologyMode.HARD
                and fresh & {k.kernel_id for k in kernels}
            ):
                seats = [where.get(k.kernel_id, None if k.releasing else k.agent) for k in kernels]
                assert close_enough(case.snapshot, constraint, {seat for seat in seats if seat is not None})


def close_enough(snapshot: SystemSnapshot, constraint: TopologyConstraint, agents: set[AgentId]) -> bool:
    tree, highest = snapshot.tree, constraint.highest_tier
    tier = tree.tier_named(highest) if isinstance(highest, str) else highest
    if isinstance(highest, str) and tier is None:
        return False
    allowed = [node.name for node in tree.hypernodes if tier is None or node.tier <= tier]
    return any(agents <= set(tree.agents_under(name)) for name in allowed)


@given(cases())
def test_every_session_that_waits_for_something_has_one_verdict_that_says_why(case: Case) -> None:
    plan = case.plan
    placed = Counter(placement.session_id for placement in plan.placements)
    waits = {s.session_id for s in case.snapshot.sessions if any(k.agent is None for k in s.kernels)}
    assert [verdict.session_id for verdict in plan.verdicts] == list(plan.by_session)
    assert set(plan.by_session) == waits
    for verdict in plan.verdicts:
        assert verdict.summary
        assert verdict.kernels_placed == placed[verdict.session_id]
        assert (verdict.code is Code.PLACED) == (placed[verdict.session_id] > 0)
        if verdict.code not in {Code.PLACED, Code.BEST_EFFORT}:
            assert [check for check in verdict.checks if check.result != "ok"]
            assert all(check.detail for check in verdict.checks if check.result != "ok")


@given(cases(Features(queues=False, owners=False, closeness=False, parts=False, running=False)))
def test_no_kernel_waits_alone_beside_an_agent_that_has_room_for_it(case: Case) -> None:
    plan = case.plan
    placed = {placement.session_id for placement in plan.placements}
    for session in case.snapshot.sessions:
        if len(session.kernels) == 1 and session.gang_size == 1 and session.session_id not in placed:
            kernel = session.kernels[0]
            ghosts = [group for group, least in session.group_minimums.items() if least and group != kernel.group]
            if kernel.slots and not ghosts:
                assert homes(case, plan, kernel) == []


@given(cases())
def test_a_reason_that_speaks_of_room_is_true_of_every_agent(case: Case) -> None:
    plan = case.plan
    for session in case.snapshot.sessions:
        verdict = plan.by_session.get(session.session_id)
        bound = session.topology or session.group_minimums or session.partitions
        if verdict is not None and verdict.code in ROOM and len(session.kernels) == 1 and not bound:
            assert homes(case, plan, session.kernels[0]) == []


def homes(case: Case, plan: SchedulingPlan, kernel: KernelWorkload) -> list[AgentId]:
    """The agents that could take a kernel after all that the plan does."""
    asked = {**kernel.slots, "kernels": 1}
    return [
        agent.agent_id
        for agent in case.snapshot.agents
        if suits(kernel, agent) and all(left_over(case, plan, agent)[slot] >= n for slot, n in asked.items())
    ]


# ---------------------------------------------------------------------------------------------------------------
# What changes nothing


@given(cases(), st.data())
def test_the_order_in_which_things_are_listed_changes_nothing(case: Case, data: st.DataObject) -> None:
    snapshot = case.snapshot
    shuffled = replace(
        snapshot,
        agents=tuple(data.draw(st.permutations(snapshot.agents))),
        sessions=tuple(data.draw(st.permutations(snapshot.sessions))),
        queues=tuple(data.draw(st.permutations(snapshot.queues))),
        hypernodes=tuple(data.draw(st.permutations(snapshot.hypernodes))),
    )
    assert Case(shuffled).plan == case.plan == case.plan


@given(cases())
def test_the_cache_of_what_does_not_fit_changes_nothing(case: Case) -> None:
    assert schedule(case.snapshot, replace(case.profile, fit_error_cache=False)) == case.plan


@given(cases())
def test_one_shard_that_holds_all_agents_changes_nothing(case: Case) -> None:
    agents = tuple(replace(agent, shard="east") for agent in case.snapshot.agents)
    whole = replace(case.snapshot, agents=agents)
    for mode in ("soft", "hard"):
        assert schedule(whole, replace(case.profile, shard="east", shard_mode=mode)) == case.plan


@given(cases())
def test_a_snapshot_that_was_saved_gives_the_same_plan(case: Case) -> None:
    again = Case(snapshot_from_json(snapshot_to_json(case.snapshot)))
    assert again.plan == case.plan
    assert plan_from_json(plan_to_json(case.plan)) == case.plan


@given(st.lists(amounts(6, 0), min_size=1, max_size=6), st.integers(33, 60), st.integers(1, 2))
def test_a_large_gang_goes_where_its_kernels_would_go_one_by_one(
    sizes: list[ResourceSlot], count: int, cpus: int
) -> None:
    agents = tuple(AgentInfo(AgentId(f"a{i}"), slots * 5) for i, slots in enumerate(sizes))
    kernels = tuple(KernelWorkload(KernelId(f"k{i:02}"), ResourceSlot({"cpu": cpus})) for i in range(count))
    gang = SessionWorkload(SessionId("gang"), kernels, min_kernels=count)
    alone = tuple(SessionWorkload(SessionId(f"s{k.kernel_id}"), (k,)) for k in kernels)
    together = schedule(SystemSnapshot(agents, (gang,)), SchedulingProfile())
    singly = schedule(SystemSnapshot(agents, alone), SchedulingProfile())
    if total(agent.available_slots for agent in agents)["cpu"] >= count * cpus and len(singly.placements) == count:
        assert list(placed_seats(together)) == list(placed_seats(singly))
    else:
        assert together.placements == ()


def drawn(count: int) -> list[Case]:
    """So many random cases, for a test that looks at all of them at once."""
    found: list[Case] = []

    @settings(max_examples=count)
    @given(cases())
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


@pytest.mark.parametrize("seed", ["1", "20260"])
def test_a_replay_under_another_hash_seed_gives_the_same_plans(seed: str, tmp_path: Path) -> None:
    batch, files = drawn(60), []
    for index, case in enumerate(batch):
        path = tmp_path / f"{index:03}.json"
        path.write_text(snapshot_to_json(case.snapshot), encoding="utf-8")
        files.append(str(path))
    command = [sys.executable, "-m", "sokovan", "simulate", "--snapshot", "--json", *files]
    replay = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
    )
    got = [answer["plan"] for answer in json.loads(replay.stdout)]
    assert got == [json.loads(plan_to_json(case.plan))["plan"] for case in batch]
