"""EndTimes: what will have been released by a time."""

from __future__ import annotations

from sokovan.scheduling.engine.timing.end_times import EndTimes, end_of
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.snapshot import NEVER_MS
from tests.unit.scheduling.engine.evictions.takers import cluster, runs
from tests.unit.scheduling.little_cluster import session


def test_a_session_ends_by_its_start_its_limit_and_its_grace() -> None:
    limited = session("s", time_limit_ms=5000, grace_ms=300, running_since_ms=1000)
    assert end_of(limited, 2000) == 6300
    assert end_of(session("s", time_limit_ms=5000), 2000) == 7000, "one that is starting runs from now on"
    assert end_of(limited, 9000) == 9001, "one that is overdue is about to end"
    assert end_of(session("s"), 2000) == NEVER_MS


def test_kernels_with_a_limit_are_released_by_their_end() -> None:
    seen = cluster(
        runs("short", "a", time_limit_ms=1000), runs("long", "b", "b", time_limit_ms=9000), runs("ever", "c"), cpu=2
    )
    workspace = Workspace(seen.agents, seen.tree, {"cpu"})
    ends = EndTimes(seen, workspace)
    assert ends.times() == [1000, 9000]
    assert ends.released_by(999).sum() == 0
    assert ends.released_by(1000)[:, 0].tolist() == [1000, 0, 0]
    assert ends.released_by(9000)[:, 0].tolist() == [1000, 2000, 0]
    assert ends.usage_ended_by(9000) == {"default": [3000]}
    ends.place(2, 500, ends.columns[2][0], "q")
    assert ends.times() == [500, 1000, 9000]
    assert ends.usage_ended_by(500) == {"q": [1000]}
