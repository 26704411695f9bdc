"""Clusters in which sessions are evicted, for the tests of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, QueueName
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.records import SessionRecord
from sokovan.domain.session import SessionType
from sokovan.orchestrator.sessions.session_writer import SessionMoves, SessionWriter
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import DEFAULT_GROUP

PREEMPTING = ScalingGroup(
    name=DEFAULT_GROUP, scheduler_opts={"actions": ["enqueue", "allocate", "preempt", "reclaim", "backfill"]}
)
# Its sessions have no minimum run time.
AT_ONCE = Queue(QueueName("default"), min_runtime_s=0)
FOUR: dict[str, Any] = {"slots": {"cpu": 4000}, "session_type": SessionType.BATCH}
WHOLE_AGENT = {"cpu": 4000}
A1 = AgentId("a1")


async def low_and_high(cluster: OrchestratedCluster, **options: Any) -> None:
    """An agent that a session of low priority fills, and one of high priority that waits for it."""
    await cluster.stored.put(PREEMPTING, AT_ONCE)
    await cluster.agent("a1", slots=WHOLE_AGENT)
    await cluster.submit("low", **{**FOUR, **options})
    await cluster.settle()
    assert await cluster.status("low") == "running"
    await cluster.submit("high", priority=5, **FOUR)


async def evicted_without_notice(cluster: OrchestratedCluster, victim: str) -> None:
    """Run rounds until a session is evicted; its agent has not been asked to stop it then."""
    before = cluster.agents.all[A1].requests["stop"]
    for _ in range(5):
        await cluster.tick()
        if (await cluster.session(victim)).evictions:
            break
    assert cluster.agents.all[A1].requests["stop"] == before


def just_before_notices(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[object]]) -> list[int]:
    """Let another process commit once between a decision to give notices and their commit.

    Returns the number of notices of each such commit, as they come.
    """
    move, seen = SessionWriter.move, list[int]()

    async def after_it(writer: SessionWriter, handler: str, plans: Sequence[SessionMoves]) -> list[SessionRecord]:
        noticed = [one for one in plans if one.steps[0].trigger is KernelTrigger.NOTICED]
        if noticed:
            seen.append(len(noticed))
        if len(seen) == 1 and noticed:
            await act()
        return await move(writer, handler, plans)

    monkeypatch.setattr(SessionWriter, "move", after_it)
    return seen
