"""Statistics of an engine as the use of a kernel."""

from __future__ import annotations

import pytest

from sokovan.adapters.docker.engine.client import EngineRefusal
from sokovan.adapters.docker.engine.container_use import container_use, use_in
from sokovan.ports.runtime import KernelUse
from tests.unit.adapters.docker.canned_engine import canned_engine

STATS = {
    "cpu_stats": {"cpu_usage": {"total_usage": 2_345_678_901}},
    "memory_stats": {"usage": 5000, "stats": {"inactive_file": 2000, "anon": 9}},
    "pids_stats": {"current": 70},
}


async def test_an_engine_is_asked_once_and_not_for_a_stream() -> None:
    async with canned_engine({"GET /containers/c/stats": (200, STATS)}) as engine:
        found = await container_use(engine.client, "c", now_ms=9, processes=3)
        assert found == KernelUse(9, cpu_ms=2345, memory_bytes=3000, processes=3)
        assert engine.asked[-1] == "GET /containers/c/stats?stream=false&one-shot=true"
        with pytest.raises(EngineRefusal):
            await container_use(engine.client, "other", now_ms=9, processes=None)


def test_the_first_version_of_control_groups_names_the_droppable_part_differently() -> None:
    stats = {"memory_stats": {"usage": 5000, "stats": {"total_inactive_file": 6000}}}
    assert use_in(stats, now_ms=1, processes=None) == KernelUse(1, memory_bytes=0)


@pytest.mark.parametrize("stats", [{}, {"cpu_stats": None, "memory_stats": {}}, {"memory_stats": {"usage": "much"}}])
def test_figures_that_an_engine_does_not_give_are_absent(stats: dict[str, object]) -> None:
    assert use_in(stats, now_ms=1, processes=None) == KernelUse(1)
