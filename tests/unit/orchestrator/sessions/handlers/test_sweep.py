"""The periodic sweep: its interval, and failures of its handlers."""

import asyncio
from collections.abc import Callable

from sokovan.orchestrator.sessions.context import CycleInput
from sokovan.orchestrator.sessions.handlers.sweep import PeriodicSweep
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.unit.orchestrator.sessions.test_context import context_of


class Counting:
    """A handler that counts its runs."""

    def __init__(self, name: str, act: Callable[[], bool]) -> None:
        self.name, self.runs, self._act = name, 0, act

    def clear(self) -> None:
        pass

    async def handle(self, cycle: CycleInput) -> bool:
        del cycle
        self.runs += 1
        return self._act()


class Hanging:
    """A handler that never ends."""

    name = "hanging"

    def clear(self) -> None:
        pass

    async def handle(self, cycle: CycleInput) -> bool:
        del cycle
        return await asyncio.Event().wait()


def fails() -> bool:
    raise RuntimeError("broken")


async def test_a_sweep_runs_once_a_second_and_in_every_long_cycle(cluster: OrchestratedCluster) -> None:
    handler = Counting("counting", lambda: True)
    sweep = PeriodicSweep(context_of(cluster), [handler])
    assert sweep.next_due_s() == 0
    assert await sweep.handle(CycleInput())
    assert not await sweep.handle(CycleInput())
    assert sweep.next_due_s() == 1.0
    await cluster.clock.advance(1)
    await sweep.handle(CycleInput())
    await sweep.handle(CycleInput(long=True))
    assert handler.runs == 3
    sweep.clear()
    await sweep.handle(CycleInput())
    assert handler.runs == 4


async def test_a_handler_that_fails_does_not_stop_the_others(cluster: OrchestratedCluster) -> None:
    broken, good = Counting("broken", fails), Counting("good", lambda: True)
    sweep = PeriodicSweep(context_of(cluster), [broken, good])
    assert await sweep.handle(CycleInput())
    assert good.runs == 1
    assert [(name, str(error)) for name, error in cluster.failures] == [("broken", "broken")]
    assert cluster.telemetry.counted("handler_failures_total", handler="broken", kind="error") == 1


async def test_a_handler_that_hangs_uses_only_its_share_of_the_time(cluster: OrchestratedCluster) -> None:
    good = Counting("good", lambda: True)
    sweep = PeriodicSweep(context_of(cluster), [Hanging(), good])
    sweeping = asyncio.ensure_future(sweep.handle(CycleInput()))
    await cluster.clock.advance(29)
    assert not sweeping.done()
    await cluster.clock.advance(2)
    assert sweeping.done()
    assert (good.runs, [name for name, _ in cluster.failures]) == (1, ["hanging"])
    assert cluster.telemetry.counted("handler_failures_total", handler="hanging", kind="timeout") == 1
