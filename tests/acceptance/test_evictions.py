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
        yield server


def runs(fleet: Embedded, name: str, size: int, *options: str) -> None:
    done = fleet.cli(
        "run", "-d", "-n", name, "--size", str(size), "--gpus", "1", "--workdir", "none", *options, "--", "sleep", "20"
    )
    assert done.returncode == 0, done.stderr


def test_a_gang_of_high_priority_takes_room_and_the_evicted_come_back_and_finish(fleet: Embedded) -> None:
    names = [f"low-{number}" for number in range(8)]
    for name in names:
        runs(fleet, name, 64)
    for name in names:
        fleet.reaches(name, "running")
    plan = fleet.cli("plan", "--size", "128", "--gpus", "1", "--priority", "5", "--", "true")
    assert "preempt would take 128 kernels of 2 sessions" in plan.stdout, plan.stdout + plan.stderr
    runs(fleet, "high", 128, "--priority", "5")
    fleet.reaches("high", "running")
    evicted = [name for name in names if fleet.session(name)["evictions"]]
    assert len(evicted) == 2
    for name in evicted:
        [receipt] = fleet.session(name)["evictions"]
        assert (receipt["action"], receipt["kernels"], receipt["whole"]) == ("preempt", 64, True)
        assert receipt["for_session"] == fleet.session("high")["id"]
        assert "preempt took all its kernels" in fleet.cli("why", name).stdout
        assert "eviction 1" in fleet.cli("session", "show", name).stdout
    assert any(line["code"] == "took-room" for line in fleet.history("high"))
    for name in (*evicted, "high"):
        ended = fleet.reaches(name, "terminated", limit_s=180)
        assert ended["result"] == "success", ended
    assert all(fleet.session(name)["attempt"] == 2 for name in evicted)


def test_the_server_is_killed_during_an_eviction_and_completes_it(fleet: Embedded) -> None:
    runs(fleet, "victim", 512)
    fleet.reaches("victim", "running")
    runs(fleet, "taker", 64, "--priority", "5")
    until(lambda: fleet.session("victim")["evictions"], what="it is evicted")
    fleet.kill()
    fleet.start("--fake", "64x8", "--no-agent")
    assert fleet.reaches("taker", "running", "terminated", limit_s=120)
    assert len(fleet.session("victim")["evictions"]) == 1
    fleet.audit()
    fleet.end("victim", forced=True)
