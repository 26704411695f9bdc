"""Counts of best-effort kernels by agent and user."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.session import SessionType
from sokovan.scheduling.engine.usage.best_effort_usage import BestEffortUsage
from tests.unit.scheduling.engine.builders import agents, gang, kernel, owner, session, snapshot

GROUP = ScalingGroup(ScalingGroupName("default"), best_effort_per_agent_max=3, best_effort_per_user_max=2)


def test_running_kernels_without_slots_are_counted_by_agent_and_user() -> None:
    leaves = replace(kernel("k", at="a1"), releasing=True)
    runs = session("s", kernel("j", at="a0"), leaves, kernel("l", "cpu=1", at="a0"), owner=owner("alice"))
    usage = BestEffortUsage(snapshot(agents(2, "cpu=1"), runs, gang("waits", 2, ""), scaling_group=GROUP))
    most, here, leaving = usage.by_agent
    assert (most, dict(here), dict(+leaving)) == (3, {"a0": 1, "a1": 1}, {"a1": 1})
    assert usage.left(runs) == 0
    assert "the limit of scaling group default is 2" in usage.limit_text(runs)


def test_placed_kernels_are_counted_for_their_user_but_not_those_of_system_sessions() -> None:
    mine = gang("s", 1, "", owner=owner("alice"))
    system = replace(gang("sys", 5, "", owner=owner("alice")), session_type=SessionType.SYSTEM)
    usage = BestEffortUsage(snapshot(agents(1, "cpu=1"), mine, system, scaling_group=GROUP))
    usage.count(system, 5)
    assert (usage.left(mine), usage.left(system)) == (2, 5)
    usage.count(mine, 2)
    assert usage.left(mine) == 0
