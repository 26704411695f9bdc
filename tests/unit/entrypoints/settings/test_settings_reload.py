"""Changes of settings while the server runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import QueueName, ScalingGroupName
from sokovan.entrypoints.settings.live_settings import LiveSettings
from sokovan.entrypoints.settings.settings_reload import SettingsReload, put_groups
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.sessions.config import Timing
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.local.little_files import put
from tests.unit.adapters.local.quick_clock import QuickClock

GPU = ScalingGroupName("gpu")


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await QuickClock().sleep(0.001)


@pytest.mark.slow
async def test_a_change_is_logged_applied_and_its_groups_are_stored(tmp_path: Path) -> None:
    file, clock = tmp_path / "sokovan.toml", QuickClock()
    logged: list[str] = []
    timings: list[Timing] = []
    async with StoredCluster.open() as cluster:
        live = LiveSettings(TomlConfig(file, clock=clock, poll_s=0.001), clock=clock)
        await live.start_from(None)
        hints = InProcessHints(cluster.store.database.clock)
        reload = SettingsReload(live, cluster.store, hints, retime=timings.append, log=logged.append)
        running = asyncio.create_task(reload.run())
        put(file, "[orchestrator]\nagent_lost_s = 90\n[api]\nport = 5\n[scaling_groups.gpu]\nscheduler = 'drf'\n")
        await until(lambda: timings)
        assert timings[-1].heartbeats.lost_after_ms == 90_000
        assert logged == [
            "setting scaling_groups.gpu changed",
            "setting orchestrator.agent_lost_s changed from 60 to 90",
        ]
        await hints.wait((SESSIONS_HINT,), timeout_s=60)
        stored = await cluster.store.read(lambda unit: unit.catalog.get(ScalingGroup, GPU))
        assert stored.scheduler == "drf"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.slow
async def test_a_group_that_is_stored_already_is_not_written_again() -> None:
    async with StoredCluster.open() as cluster:
        groups = {GPU: ScalingGroup(GPU, scheduler="lifo")}
        logged: list[str] = []
        await put_groups(cluster.store, groups, log=logged.append)
        await put_groups(cluster.store, groups, log=logged.append)
        assert logged == []
        found = await cluster.store.read(lambda unit: unit.audit.page(limit=10))
        assert [(entry.who, entry.target) for _, _, entry in found] == [("settings", "gpu")]


async def test_what_a_group_names_and_does_not_exist_is_logged() -> None:
    hard = {"shard": "s1", "shard_mode": "hard"}
    async with StoredCluster.open() as cluster:
        logged: list[str] = []
        groups = {GPU: ScalingGroup(GPU, scheduler_opts=hard, default_queue=QueueName("night"))}
        await put_groups(cluster.store, groups, log=logged.append)
        stored = await cluster.store.read(lambda unit: unit.catalog.get(ScalingGroup, GPU))
    assert stored == groups[GPU]
    assert len(logged) == 2
    assert "there is no queue 'night'" in logged[0]
    assert "needs an agent of shard s1, and this group has none" in logged[1]
    assert "sokovan agent run --shard s1" in logged[1]


async def test_the_shard_of_the_agent_that_starts_now_is_not_missing() -> None:
    groups = {GPU: ScalingGroup(GPU, scheduler_opts={"shard": "s1", "shard_mode": "hard"})}
    async with StoredCluster.open() as cluster:
        logged: list[str] = []
        await put_groups(cluster.store, groups, log=logged.append, joining="s1")
        assert logged == []
