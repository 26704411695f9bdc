"""Invariants of every plan, on random small clusters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.plain_values import from_plain, to_plain
from sokovan.domain.session import Partition, TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.codec import snapshot_from_json, snapshot_to_json
from sokovan.scheduling.cycle_timing import depends_on_time
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.scenario.random_cases import Case, Features, cases, free, suits

ROOM = {Code.NOT_ENOUGH_FREE, Code.FRAGMENTED, Code.RESERVED_FOR_GANG}


# ---------------------------------------------------------------------------------------------------------------
# Invariants


@given(cases())
def test_a_plan_takes_no_more_than_is_idle_and_holds_no_more_than_will_be(case: Case) -> None:
    now, later = case.taken(case.placed), case.taken([*case.placed, *case.held])
    for agent in case.snapshot.agents:
        for rows, room in ((now, free(agent, later=False)), (later, free(agent, later=True))):
            for slot, amount in rows.get(agent.agent_id, {}).items():
                assert amount <= room[slot], (agent.agent_id, slot)


@pytest.mark.slow
@given(cases())
def test_a_kernel_gets_one_agent_that_may_run_it_and_only_if_it_waited(case: Case) -> None:
    kernels = case.kernels
    agents = {agent.agent_id: agent for agent in case.snapshot.agents}
    seats = [*case.placed, *case.held]
    assert len({kernel_id for kernel_id, _ in seats}) == len(seats)
    for kernel_id, agent_id in seats:
        assert kernels[kernel_id].agent is None
        assert suits(kernels[kernel_id], agents[agent_id])


@pytest.mark.slow
@given(cases())
def test_a_session_that_was_not_ready_starts_with_all_its_minimums_or_not_at_all(case: Case) -> None:
    placed = {kernel_id for kernel_id, _ in case.placed}
    for session in case.snapshot.sessions:
        new = [kernel for kernel in session.kernels if kernel.kernel_id in placed]
        if new:
            runs = [kernel for kernel in session.kernels if kernel.agent is not None and not kernel.releasing]
            assert ready(session, [*runs, *new]), session.session_id


@given(cases(), st.integers(1, 1 << 40))
def test_a_plan_that_does_not_depend_on_the_time_is_the_same_later(case: Case, passed_ms: int) -> None:
    assume(not depends_on_time(case.snapshot, case.profile))
    later = replace(case.snapshot, now_ms=case.snapshot.now_ms + passed_ms)
    assert schedule(later, case.profile) == case.plan


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


@given(cases())
def test_what_starts_and_what_is_reserved_together_exceed_no_limit_of_an_owner(case: Case) -> None:
    kernels, new = case.kernels, dict[tuple[Scope, str], Counter[str]]()
    owners = {kernel.kernel_id: session.owner for session in case.snapshot.sessions for kernel in session.kernels}
    for kernel_id, _ in [*case.placed, *case.held]:
        for key in scopes(owners[kernel_id]):
            new.setdefault(key, Counter()).update(kernels[kernel_id].slots)
    for (scope, name), asked in new.items():
        policy = case.snapshot.limits.get(scope, {}).get(name)
        if policy is not None:
            used = case.snapshot.usage.get(scope, {}).get(name)
            for slot, limit in policy.slots_max.items():
                if asked[slot]:
                    assert asked[slot] + (used.slots[slot] if used else 0) <= limit, (scope, name, slot)


@given(cases())
def test_no_more_sessions_start_than_a_keypair_may_run(case: Case) -> None:
    snapshot, plan = case.snapshot, case.plan
    begun = {placement.session_id for placement in plan.placements} | {held.session_id for held in plan.reservations}
    new = Counter(
        session.owner.access_key
        for session in snapshot.sessions
        if session.session_id in begun
        and all(k.agent is None or k.releasing for k in session.kernels)
        # A session whose kernels are all being released still counts as running.
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


@pytest.mark.slow
@given(cases())
def test_a_hard_topology_holds_for_all_kernels_that_run_or_start(case: Case) -> None:
    where = dict(case.placed)
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
def test_every_session_with_waiting_kernels_has_one_verdict_with_a_reason(case: Case) -> None:
    plan = case.plan
    placed = Counter(placement.session_id for placement in plan.placements)
    waits = {s.session_id for s in case.snapshot.sessions if any(k.agent is None for k in s.kernels)}
    assert [verdict.session_id for verdict in plan.verdicts] == list(plan.trace)
    assert set(plan.trace) == waits
    for verdict in plan.verdicts:
        assert verdict.summary
        assert verdict.kernels_placed == placed[verdict.session_id]
        assert (verdict.code is Code.PLACED) == (placed[verdict.session_id] > 0)
        if verdict.code not in {Code.PLACED, Code.BEST_EFFORT}:
            assert [check for check in verdict.checks if check.result != "ok"]
            assert all(check.detail for check in verdict.checks if check.result != "ok")


@pytest.mark.slow
@given(cases(Features(queues=False, owners=False, closeness=False, parts=False, running=False)))
def test_no_kernel_waits_alone_beside_an_agent_that_has_room_for_it(case: Case) -> None:
    assume("enqueue" not in case.profile.actions)  # it keeps room for admitted sessions
    placed = {session_id for _, session_id, _ in case.plan.placements}
    for session in case.snapshot.sessions:
        if len(session.kernels) == 1 and session.gang_size == 1 and session.session_id not in placed:
            kernel = session.kernels[0]
            ghosts = [group for group, least in session.group_minimums.items() if least and group != kernel.group]
            if kernel.slots and not ghosts:
                assert case.homes(kernel) == []


@given(cases())
def test_a_reason_about_room_is_true_of_every_agent(case: Case) -> None:
    plan = case.plan
    for session in case.snapshot.sessions:
        verdict = plan.trace.get(session.session_id)
        bound = session.topology or session.group_minimums or session.partitions
        if verdict is not None and verdict.code in ROOM and len(session.kernels) == 1 and not bound:
            assert case.homes(session.kernels[0], reserved=verdict.code is Code.RESERVED_FOR_GANG) == []


# ---------------------------------------------------------------------------------------------------------------
# Changes of the input that must not change the plan


@pytest.mark.slow
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
    assert Case(shuffled).plan == case.plan == Case(snapshot).plan


@pytest.mark.slow
@given(cases())
def test_the_fit_error_cache_changes_nothing(case: Case) -> None:
    assert schedule(case.snapshot, replace(case.profile, fit_error_cache=False)) == case.plan


@pytest.mark.slow
@given(cases())
def test_one_shard_that_holds_all_agents_changes_nothing(case: Case) -> None:
    agents = tuple(replace(agent, shard="east") for agent in case.snapshot.agents)
    whole = replace(case.snapshot, agents=agents)
    for mode in ("soft", "hard"):
        assert schedule(whole, replace(case.profile, shard="east", shard_mode=mode)) == case.plan


@pytest.mark.slow
@given(cases())
def test_a_snapshot_that_was_saved_gives_the_same_plan(case: Case) -> None:
    again = Case(snapshot_from_json(snapshot_to_json(case.snapshot)))
    assert again.plan == case.plan
    assert from_plain(SchedulingPlan, json.loads(json.dumps(to_plain(case.plan))), key="plan") == case.plan


@pytest.mark.slow
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(33, 60), st.integers(1, 2))
def test_a_large_gang_goes_where_its_kernels_would_go_one_by_one(sizes: list[int], count: int, cpus: int) -> None:
    agents = tuple(AgentInfo(AgentId(f"a{i}"), ResourceSlot({"cpu": size})) for i, size in enumerate(sizes))
    kernels = tuple(KernelWorkload(KernelId(f"k{i:02}"), ResourceSlot({"cpu": cpus})) for i in range(count))
    gang = SessionWorkload(SessionId("gang"), kernels, min_kernels=count)
    alone = tuple(SessionWorkload(SessionId(f"s{k.kernel_id}"), (k,)) for k in kernels)
    together = schedule(SystemSnapshot(agents, (gang,)), SchedulingProfile())
    singly = schedule(SystemSnapshot(agents, alone), SchedulingProfile())
    if len(singly.placements) == count:
        assert [(p.kernel_id, p.agent_id) for p in together.placements] == [
            (p.kernel_id, p.agent_id) for p in singly.placements
        ]
    else:
        assert together.placements == ()


def drawn(count: int) -> list[Case]:
    """Random cases, for a test that checks all of them at once."""
    found: list[Case] = []

    @settings(max_examples=count)
    @given(cases())
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


@pytest.mark.slow
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
    assert got == [json.loads(json.dumps(to_plain(case.plan))) for case in batch]
