"""The figures of all kernels, for sessions that were read without them."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql.repositories.sessions import kernel_lists
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.owners.usage_history import UsageBy, UsageSeries, UsageWindow
from sokovan.domain.records import KernelMove, KernelSummary
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import BY_AGENT, StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements


async def test_the_figures_of_a_session_are_those_of_all_its_kernels() -> None:
    async with StoredCluster.open() as cluster:
        for agent in ("a1", "a2"):
            await cluster.agent(agent)
        await cluster.submit("gang", kernels=4)
        await cluster.submit("waits", kernels=2)
        await cluster.place("gang", "a1", "a2", "a2", "a1")
        started = await cluster.start("gang")
        moves = [
            KernelMove(kernel, KernelTrigger.EXITED, code)
            for kernel, code in zip(started.kernels[:3], (0, 3, 0), strict=True)
        ]
        ended = await cluster.store.run(lambda unit: unit.sessions.move_kernels(moves, BY_AGENT))
        ids = [SessionId("gang"), SessionId("waits"), SessionId("unknown")]
        found = await cluster.store.read(lambda unit: unit.sessions.kernel_counts(ids))
        assert found == {
            "gang": KernelSummary.of(ended.kernels),
            "waits": KernelSummary.of((await cluster.session("waits")).kernels),
        }
        counts = found[SessionId("gang")]
        assert (counts.agents, counts.exited, counts.exit_codes) == (2, 3, (0, 3))


async def test_more_kernels_than_are_counted_together_are_all_counted_and_paged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_lists, "COUNTED", 3)
    monkeypatch.setattr(kernel_lists, "COUNTED_TOGETHER", 4)
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        records = [await cluster.submit(name, kernels=size) for name, size in (("five", 5), ("six", 6), ("two", 2))]
        await cluster.place("six", *["a1"] * 6)
        records[1] = await cluster.session("six")
        ids = [one.session_id for one in records]
        found = await cluster.store.read(lambda unit: unit.sessions.kernel_counts(ids))
        assert found == {one.session_id: KernelSummary.of(one.kernels) for one in records}
        for limit, indexes in ((4, [1, 2, 3, 4]), (99, [1, 2, 3, 4, 5])):
            page = await cluster.store.read(
                lambda unit, limit=limit: unit.sessions.kernels(ids[1], limit=limit, after=0)  # type: ignore[misc]  # bound to this limit
            )
            assert [one.index for one in page] == indexes


async def test_of_one_session_more_is_counted_at_once_than_of_many_and_the_rest_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_lists, "COUNTED", 3)
    monkeypatch.setattr(kernel_lists, "COUNTED_TOGETHER", 12)
    async with StoredCluster.open() as cluster:
        ids = [(await cluster.submit(name, kernels=10)).session_id for name in ("s1", "s2", "s3", "s4")]
        parts = []
        for count in (1, 2, 4):
            with recorded_statements(cluster) as statements:
                await cluster.store.read(lambda unit, count=count: unit.sessions.kernel_counts(ids[:count]))  # type: ignore[misc]  # bound to this count
            parts.append(sum("count(*)" in one for one in statements))
        # All ten kernels at once; six of each, then four of each; three of each, then seven of each.
        assert parts == [1, 2, 2]


async def test_what_was_held_before_the_window_is_its_first_level() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1", slots={"mem": 8 << 30})
        await cluster.place("s1", "a1")
        await cluster.start("s1")
        await clock.advance(100)
        begin_ms = clock.now_ms()
        await clock.advance(15)
        await cluster.stop("s1")
        await cluster.free("s1", FreeProof.AGENT_TOMBSTONE)
        window = UsageWindow(begin_ms, begin_ms + 30_000, 10_000)
        found = await cluster.store.read(lambda unit: unit.sessions.usage_history(SessionFilter(), window, UsageBy.ALL))
        assert found == [UsageSeries("", "mem", (8 << 30, 4 << 30, 0))]
        assert (
            await cluster.store.read(
                lambda unit: unit.sessions.usage_history(SessionFilter(user="a b"), window, UsageBy.ALL)
            )
            == []
        )
