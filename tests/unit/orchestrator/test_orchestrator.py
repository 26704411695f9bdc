"""The orchestrator runs what coordinators ask for, and has them let go at the end."""

from collections.abc import Sequence

import pytest

from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.orchestrator.orchestrator import SokovanOrchestrator, TaskEnded
from sokovan.orchestrator.periodic_tasks import TaskFailure, TaskSpec
from sokovan.testing.clock import VirtualClock, until
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


class Counting:
    """A coordinator that counts."""

    def __init__(self) -> None:
        self.rounds, self.closed = 0, False

    def tasks(self) -> Sequence[TaskSpec]:
        return (TaskSpec("count", self.count, hints=("count",)), TaskSpec("beside", self.count, long_cycle_s=1.0))

    async def count(self) -> bool:
        self.rounds += 1
        return False

    async def close(self) -> None:
        self.closed = True


async def test_every_task_of_every_coordinator_runs_until_the_end() -> None:
    clock = VirtualClock()
    hints, coordinators = InProcessHints(clock), (Counting(), Counting())
    failures: list[TaskFailure] = []
    orchestrator = SokovanOrchestrator(coordinators, clock=clock, hints=hints, failed=failures.append)
    await orchestrator.start()
    await clock.advance(0.5)
    assert [one.rounds for one in coordinators] == [2, 2]
    await clock.advance(1)
    assert [one.rounds for one in coordinators] == [3, 3]
    await orchestrator.stop()
    assert all(one.closed for one in coordinators)
    await clock.advance(20)
    assert [one.rounds for one in coordinators] == [3, 3]
    assert failures == []


@pytest.mark.slow
async def test_a_session_lives_by_hints_alone(cluster: OrchestratedCluster) -> None:
    failures: list[TaskFailure] = []
    orchestrator = SokovanOrchestrator(
        [cluster.coordinator], clock=cluster.clock, hints=cluster.hints, failed=failures.append
    )
    await orchestrator.start()
    agent = await cluster.agent("a1")
    agent.script.exits = lambda _launch: 0
    await cluster.submit("s")

    async def ended() -> bool:
        return await cluster.status("s") == "terminated"

    await until(ended, elapse=cluster.clock.advance, limit_s=9)
    await orchestrator.stop()
    assert failures == []
    assert await cluster.stored.leases.current("sessions") is None


async def test_a_task_that_ends_unexpectedly_is_reported() -> None:
    clock, failures = VirtualClock(), list[TaskFailure]()
    orchestrator = SokovanOrchestrator([Counting()], clock=clock, hints=InProcessHints(clock), failed=failures.append)
    await orchestrator.start()
    await clock.advance(0)
    orchestrator._running[0].cancel()
    await clock.advance(0)
    [failure] = failures
    assert (failure.task, isinstance(failure.error, TaskEnded)) == ("count", True)
    await orchestrator.stop()
    await clock.advance(0)
    assert failures == [failure]
