"""A sweep comes every second, and one part that fails stops no other."""

from collections.abc import Callable

from sokovan.orchestrator.sessions.handlers.sweep import Sweep
from sokovan.orchestrator.sessions.rounds import Round
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.unit.orchestrator.sessions.test_rounds import bench


class Part:
    """A part of a sweep that counts its turns."""

    def __init__(self, name: str, act: Callable[[], bool]) -> None:
        self.name, self.turns, self._act = name, 0, act

    async def handle(self, seen: Round) -> bool:
        del seen
        self.turns += 1
        return self._act()


def fails() -> bool:
    raise RuntimeError("broken")


async def test_a_sweep_comes_once_a_second_and_in_every_long_round(cluster: OrchestratedCluster) -> None:
    part = Part("part", lambda: True)
    sweep = Sweep(bench(cluster), [part], every_s=1.0)
    assert sweep.next_due_s() == 0
    assert await sweep.handle(Round())
    assert not await sweep.handle(Round())
    assert sweep.next_due_s() == 1.0
    await cluster.clock.advance(1)
    await sweep.handle(Round())
    await sweep.handle(Round(long=True))
    assert part.turns == 3
    sweep.clear()
    await sweep.handle(Round())
    assert part.turns == 4


async def test_a_part_that_fails_keeps_no_other_from_its_turn(cluster: OrchestratedCluster) -> None:
    broken, good = Part("broken", fails), Part("good", lambda: True)
    assert await Sweep(bench(cluster), [broken, good]).handle(Round())
    assert good.turns == 1
    assert cluster.telemetry.counted("handler_failures_total", handler="broken") == 1
