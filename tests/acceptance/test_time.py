"""Time on a running server: short sessions go ahead of a large one only if they do not delay it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well

pytestmark = pytest.mark.slow

AGENTS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up --fake 4x8`."""
    server = Embedded(tmp_path_factory.mktemp("time"))
    with ended_well(server):
        server.start("--fake", f"{AGENTS}x8", "--no-agent")
        yield server


@pytest.fixture
def fleet(server: Embedded) -> Iterator[Embedded]:
    """The server, on which nothing runs."""
    yield server
    server.end_all()


def runs(fleet: Embedded, name: str, *, agents: int = 1, seconds: str = "infinity", **body: Any) -> None:
    """Submit a gang with a kernel on each of so many agents, which has all their devices."""
    fleet.submit("sleep", seconds, name=name, size=agents, resources={"cpu": 1, "cuda.device": 8}, **body)


def explains(fleet: Embedded, name: str, text: str) -> None:
    """Wait until a session waits for a reason, and see `sokovan why` say it."""
    until(lambda: text in fleet.api("GET", f"/sessions/{name}/why").text, what=text)
    told = fleet.cli("why", name)
    assert text in " ".join(told.stdout.split()), told.stdout + told.stderr


def test_a_session_that_ends_in_time_starts_before_a_large_one_and_one_that_would_delay_it_waits(
    fleet: Embedded,
) -> None:
    runs(fleet, "running", agents=AGENTS - 1, time_limit="10m")
    fleet.reaches("running", "running")
    runs(fleet, "large", agents=AGENTS, priority=1)
    explains(fleet, "large", "at the latest, room is reserved for it")
    runs(fleet, "unlimited")
    runs(fleet, "long", time_limit="1h")
    explains(fleet, "unlimited", "and it has no time limit")
    explains(fleet, "long", "and it would not end by then")
    plan = fleet.cli("plan", "--gpus", "8", "--time-limit", "2m", "--", "true")
    assert "would start now" in plan.stdout, plan.stdout + plan.stderr
    runs(fleet, "short", time_limit="2m")
    fleet.reaches("short", "running")
    assert [fleet.session(one)["status"] for one in ("large", "unlimited", "long")] == ["pending"] * 3
    fleet.end("short", forced=True)
    fleet.end("running", forced=True)
    fleet.reaches("large", "running")
