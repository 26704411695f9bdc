"""A sweep comes every second, and one part that fails stops no other."""

import asyncio
from collections.abc import Callable

from sokovan.orchestrator.sessions.context import Cycle
from sokovan.orchestrator.sessions.handlers.sweep import PeriodicSweep
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.unit.orchestrator.sessions.test_context import bench


class Part:
    """A part of a sweep that counts its turns."""

    def __init__(self, name: str, act: Callable[[], bool]) -> None:
        self.name, self.turns, self._act = name, 0, act

    async def handle(self, seen: Cycle) -> bool:
        del seen
        self.turns += 1
        return self._act()


class Hanging:
    """A part that never comes to an end."""

    name = "hanging"

    async def handle(self, seen: Cycle) -> bool:
        del seen
        return await asyncio.Event().wait()


def unheard(name: str, error: Exception) -> None:
    raise AssertionError(f"{name} failed: {error}")


def fails() -> bool:
    raise RuntimeError("broken")


async def test_a_sweep_comes_once_a_second_and_in_every_long_round(cluster: OrchestratedCluster) -> None:
    part = Part("part", lambda: True)
    sweep = PeriodicSweep(bench(cluster), [part], every_s=1.0, failed=unheard)
    assert sweep.next_due_s() == 0
    assert await sweep.handle(Cycle())
    assert not await sweep.handle(Cycle())
    assert sweep.next_due_s() == 1.0
    await cluster.clock.advance(1)
    await sweep.handle(Cycle())
    await sweep.handle(Cycle(long=True))
    assert part.turns == 3
    sweep.clear()
    await sweep.handle(Cycle())
    assert part.turns == 4


async def test_a_part_that_fails_keeps_no_other_from_its_turn(cluster: OrchestratedCluster) -> None:
    broken, good = Part("broken", fails), Part("good", lambda: True)
    told: list[tuple[str, str]] = []
    sweep = PeriodicSweep(bench(cluster), [broken, good], failed=lambda name, error: told.append((name, str(error))))
    assert await sweep.handle(Cycle())
    assert good.turns == 1
    assert told == [("broken", "broken")]
    assert cluster.telemetry.counted("handler_failures_total", handler="broken", kind="error") == 1


async def test_a_part_that_hangs_uses_up_its_own_share_of_the_time_only(cluster: OrchestratedCluster) -> None:
    good, told = Part("good", lambda: True), list[str]()
    sweep = PeriodicSweep(bench(cluster), [Hanging(), good], failed=lambda name, _: told.append(name), handler_s=60)
    sweeping = asyncio.ensure_future(sweep.handle(Cycle()))
    await cluster.clock.advance(29)
    assert not sweeping.done()
    await cluster.clock.advance(2)
    assert sweeping.done()
    assert (good.turns, told) == (1, ["hanging"])
    assert cluster.telemetry.counted("handler_failures_total", handler="hanging", kind="timeout") == 1
