"""The manager's event loop: decisions run in a thread."""

from __future__ import annotations

import threading

import pytest

from sokovan.entrypoints.embedded import manager_runtime
from sokovan.entrypoints.embedded.manager_runtime import decide_in_thread
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster


async def test_the_core_decides_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[int] = []
    real = schedule

    def watched(snapshot: SystemSnapshot, profile: SchedulingProfile, registry: PluginRegistry) -> SchedulingPlan:
        where.append(threading.get_ident())
        return real(snapshot, profile, registry)

    monkeypatch.setattr(manager_runtime, "schedule", watched)
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1")
        await cluster.snapshots.refresh()
        snapshot = await cluster.snapshots.snapshot(DEFAULT_GROUP)
        plan = await decide_in_thread(BUILT_IN, snapshot, SchedulingProfile())
    assert [placement.agent_id for placement in plan.placements] == ["a1"]
    assert where != [threading.get_ident()]
