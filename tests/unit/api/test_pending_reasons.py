"""Adds the current pending reason to session views."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.api.mapping.times import time_text
from sokovan.api.pending_reasons import PROGRESS_MAX, session_views
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.owners.tenancy import Owner
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, DEFAULT_GROUP, StoredCluster
from sokovan.wire.api.sessions import SessionView

PROGRESS = replace(BY_COORDINATOR, code="pulling", detail="venv:tiny: Collecting numpy")


async def pulling(cluster: StoredCluster, name: str) -> None:
    await cluster.agent(f"a-{name}")
    await cluster.submit(name)
    await cluster.place(name, f"a-{name}")
    await cluster.move(name, KernelTrigger.PREPARATION_STARTED, BY_COORDINATOR)
    await cluster.move(name, KernelTrigger.PULL_STARTED, BY_AGENT)


async def views(cluster: StoredCluster, *names: str) -> list[SessionView]:
    wanted = SessionFilter(ids=[SessionId(name) for name in names])

    async def work(unit: UnitOfWork) -> list[SessionView]:
        return await session_views(unit, await unit.sessions.summaries(wanted, limit=len(names), kernels_max=1))

    return await cluster.store.read(work)


@pytest.mark.slow
async def test_each_session_has_its_own_reason() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("waits")
        verdict = StoredVerdict(SessionId("waits"), "NO_NODES", "there are no machines", "{}")
        await cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
        await pulling(cluster, "pulls")
        await pulling(cluster, "begins")
        await cluster.store.run(lambda unit: unit.sessions.note([SessionId("pulls")], PROGRESS))
        found = await views(cluster, "waits", "pulls", "begins")
        assert [(one.reason, one.reason_detail) for one in found] == [
            ("NO_NODES", "there are no machines"),
            ("pulling", "venv:tiny: Collecting numpy"),
            (None, None),
        ]


async def test_the_sessions_that_one_waits_for_are_named() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s-1", name="prepare")
        await cluster.submit("s-2", name="other", owner=Owner(user="bob"))
        await cluster.submit("s-3", dependencies=(SessionId("s-1"), SessionId("s-2")))
        verdict = StoredVerdict(SessionId("s-3"), "DEPENDENCY", "s-1, s-2 must end first (2 of 2 dependencies)", "{}")
        await cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
        [view] = await views(cluster, "s-3")
        assert view.reason_detail == "prepare (s-1), s-2 must end first (2 of 2 dependencies)"


@pytest.mark.slow
async def test_a_long_list_does_not_ask_for_every_image() -> None:
    async with StoredCluster.open() as cluster:
        names = [f"s{number:02}" for number in range(PROGRESS_MAX + 1)]
        for name in names:
            await pulling(cluster, name)
        await cluster.store.run(lambda unit: unit.sessions.note([SessionId(name) for name in names], PROGRESS))
        reasons = [one.reason for one in await views(cluster, *names)]
        assert reasons == ["pulling"] * PROGRESS_MAX + [None]


async def test_a_waiting_session_shows_when_it_times_out_unless_it_is_held() -> None:
    async with StoredCluster.open() as cluster:
        names = ("waits", "held")
        for name in names:
            await cluster.submit(name)
        verdicts = [StoredVerdict(SessionId(name), "NO_NODES", "none", "{}", held=name == "held") for name in names]
        await cluster.store.run(lambda unit: unit.verdicts.put(verdicts))
        assert [one.times_out_at for one in await views(cluster, *names)] == [None, None]
        await cluster.put(ScalingGroup(DEFAULT_GROUP, pending_timeout_s=60))
        stored = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("waits")))
        assert stored is not None
        assert [one.times_out_at for one in await views(cluster, *names)] == [time_text(stored.last_ms + 60_000), None]
