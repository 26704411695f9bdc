"""Evictions on a running server: a gang of high priority takes room, and the evicted come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well

pytestmark = pytest.mark.slow

ACTIONS = 'actions=["enqueue","allocate","preempt","reclaim","backfill"]'


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up --fake 64x8`, whose scaling group evicts."""
    server = Embedded(tmp_path_factory.mktemp("fleet"))
    with ended_well(server):
        server.start("--fake", "64x8", "--no-agent")
        done = server.cli("scaling-group", "set", "default", "--option", ACTIONS)
        assert done.returncode == 0, done.stderr
        queue = server.cli("queue", "set", "default", "--min-runtime", "0s")
        assert queue.returncode == 0, queue.stderr
        yield server


def runs(fleet: Embedded, name: str, seconds: str, *, agents: int, priority: int = 0) -> None:
    """Submit a gang with a kernel on each of so many agents, which has all their devices."""
    fleet.submit("sleep", seconds, name=name, size=agents, priority=priority, resources={"cpu": 1, "cuda.device": 8})


def test_a_gang_of_high_priority_takes_room_and_the_evicted_come_back_and_finish(fleet: Embedded) -> None:
    runs(fleet, "stays", "infinity", agents=48)
    fleet.reaches("stays", "running")
    victims = ("low-1", "low-2")
    for name in victims:
        runs(fleet, name, "40", agents=8, priority=-5)
    for name in victims:
        fleet.reaches(name, "running")
    runs(fleet, "high", "1", agents=16, priority=5)
    fleet.reaches("high", "running", "terminated")
    assert fleet.session("stays")["evictions"] == []
    for name in victims:
        [receipt] = fleet.session(name)["evictions"]
        assert (receipt["action"], receipt["kernels"], receipt["whole"]) == ("preempt", 8, True)
        assert receipt["for_session"] == fleet.session("high")["id"]
    assert "preempt took all its kernels" in fleet.cli("why", "low-1").stdout
    assert "eviction 1" in fleet.cli("session", "show", "low-1").stdout
    assert any(line["code"] == "took-room" for line in fleet.history("high"))
    for name in (*victims, "high"):
        ended = fleet.reaches(name, "terminated", limit_s=240)
        assert (ended["result"], ended["attempt"]) == ("success", 1 if name == "high" else 2)
    fleet.end("stays", forced=True)


def test_the_server_is_killed_during_an_eviction_and_completes_it(fleet: Embedded) -> None:
    runs(fleet, "victim", "infinity", agents=64)
    fleet.reaches("victim", "running")
    plan = fleet.cli("plan", "--size", "8", "--gpus", "8", "--priority", "5", "--", "true")
    assert "preempt would take 64 kernels of 1 sessions" in plan.stdout, plan.stdout + plan.stderr
    runs(fleet, "taker", "infinity", agents=8, priority=5)
    until(lambda: fleet.session("victim")["evictions"], what="it is evicted")
    fleet.kill()
    fleet.start("--fake", "64x8", "--no-agent")
    fleet.reaches("taker", "running", limit_s=120)
    assert len(fleet.session("victim")["evictions"]) == 1
    fleet.audit()
