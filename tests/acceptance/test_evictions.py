"""Evictions on a running server: a gang of high priority takes room, and the evicted come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well
from tests.acceptance.fast_timings import FastTimings

pytestmark = pytest.mark.slow

TIMINGS = FastTimings(back_off_s=3)
ACTIONS = 'actions=["enqueue","allocate","preempt","reclaim","backfill"]'


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up --fake 64x8`, whose scaling group evicts."""
    server = Embedded(tmp_path_factory.mktemp("fleet"), timings=TIMINGS)
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
    [line] = [one for one in fleet.cli("ps").stdout.splitlines() if "low-1" in one]
    assert "evicted" in line
    assert any(line["code"] == "took-room" for line in fleet.history("high"))
    for name in (*victims, "high"):
        ended = fleet.reaches(name, "terminated", limit_s=240)
        assert (ended["result"], ended["attempt"]) == ("success", 1 if name == "high" else 2)
    fleet.end("stays", forced=True)


def test_the_server_is_killed_during_an_eviction_and_completes_it(fleet: Embedded) -> None:
    runs(fleet, "victim", "infinity", agents=64)
    fleet.reaches("victim", "running")
    plan = fleet.cli("plan", "--size", "8", "--gpus", "8", "--priority", "5", "--", "true")
    assert "preempt would take 64 kernels of 1 session," in plan.stdout, plan.stdout + plan.stderr
    listed = next(line.split() for line in plan.stdout.splitlines() if "victim" in line)
    assert listed[:5] == ["victim", "preempt", "priority", "all", "64"]
    runs(fleet, "equal", "infinity", agents=8)
    until(lambda: fleet.session("equal")["reason"], what="it is considered")
    assert "nothing would be evicted for it now" in fleet.cli("why", "equal", "--evict").stdout
    fleet.end("equal")
    runs(fleet, "taker", "infinity", agents=8, priority=5)
    until(lambda: fleet.session("victim")["evictions"], what="it is evicted")
    fleet.kill()
    fleet.start("--fake", "64x8", "--no-agent")
    fleet.reaches("taker", "running", limit_s=240)
    assert len(fleet.session("victim")["evictions"]) == 1
    fleet.audit()


def test_a_queue_takes_back_its_share_once_and_the_other_does_not_take_it_again(fleet: Embedded) -> None:
    fleet.end_all()
    for words in (
        ("scaling-group", "set", "default", "--option", "queue_policy=capacity"),
        *(
            ("queue", "set", name, "--deserved", "cuda.device=256", "--min-runtime", "0s")
            for name in ("ours", "theirs")
        ),
    ):
        done = fleet.cli(*words)
        assert done.returncode == 0, done.stderr
    names = [f"{queue}-{number}" for queue in ("theirs", "ours") for number in range(8)]
    for name in names:
        fleet.submit(
            "sleep", "infinity", name=name, size=8, type="batch", queue=name.partition("-")[0],
            resources={"cpu": 1, "cuda.device": 8},
        )  # fmt: skip
        if name == names[7]:
            for each in names[:8]:
                fleet.reaches(each, "running")

    def running(queue: str) -> int:
        return sum(one["status"] == "running" for one in fleet.sessions() if one["queue"] == queue)

    until(lambda: (running("theirs"), running("ours")) == (4, 4), what="each queue has its share", limit_s=240)
    # The evicted wait, and are considered again when their back-off is over: they get nothing back.
    evicted = [one["name"] for one in fleet.sessions() if one["evictions"] and one["name"] in names]
    assert len(evicted) == 4
    assert all(name.startswith("theirs") for name in evicted)
    until(lambda: all(fleet.session(name)["reason"] != "BACKING_OFF" for name in evicted), what="they are tried again")
    assert (running("theirs"), running("ours")) == (4, 4)
    shown = fleet.cli("queue", "show", "theirs").stdout
    assert "256 in use, 256 deserved, 256 waiting" in shown, shown
    assert [len(fleet.session(name)["evictions"]) for name in evicted] == [1] * 4
    fleet.audit()


def test_the_loss_of_a_receipt_is_what_past_usage_is_refunded_and_what_histories_say(fleet: Embedded) -> None:
    fleet.end_all()
    fleet.submit("sleep", "infinity", size=63, preemptible=False, resources={"cpu": 1, "cuda.device": 8})
    assert fleet.cli("user", "set", "loser", "--group", "default").returncode == 0
    token = json.loads(fleet.cli("key", "add", "loser", "--json").stdout)["token"]
    body = {"name": "lost", "command": ["sleep", "infinity"], "type": "batch", "priority": -5}
    whole = {"cpu": 1, "cuda.device": 8}
    who = {"Authorization": f"Bearer {token}"}
    lost = fleet.api("POST", "/sessions", json={**body, "resources": whole}, headers=who).json()["id"]
    fleet.reaches(lost, "running")
    wanted = {"command": ["true"], "priority": 5, "resources": whole}

    def would_lose() -> bool:
        victims = fleet.api("POST", "/sessions/plan", json=wanted).json()["evicts"]
        return [one["lost_slot_s"] >= 24 for one in victims] == [True]

    until(would_lose, what="there is work to lose")
    taker = fleet.api("POST", "/sessions", json={**wanted, "command": ["sleep", "infinity"]}).json()["id"]
    fleet.reaches(taker, "running")
    [receipt] = fleet.session(lost)["evictions"]
    loss = receipt["lost_slot_s"]
    [told] = [one["detail"] for one in fleet.history(taker) if one["code"] == "room-freed"]
    assert f"{loss} slot seconds of its work" in told
    [check] = [
        one["detail"] for one in fleet.api("GET", f"/sessions/{lost}/why").json()["checks"] if "took" in one["detail"]
    ]
    assert f"{loss} slot seconds of work" in check
    kernel = fleet.session(lost)["kernels"][0]["id"]
    steps = {one["trigger"]: one["at"] for one in fleet.history(lost) if one["subject"] == kernel}
    held_s = (
        8 * (datetime.fromisoformat(steps["requeued"]) - datetime.fromisoformat(steps["allocated"])).total_seconds()
    )
    [used] = [one["slots"] for one in fleet.api("GET", "/usage").json()["items"] if one["name"] == "loser"]
    # Whole seconds, rounded on both sides.
    assert abs(held_s - loss - used["cuda.device"]) <= 2


def test_a_session_that_may_be_moved_makes_room_for_a_fragmented_one(fleet: Embedded) -> None:
    fleet.end_all()
    done = fleet.cli("scaling-group", "set", "default", "--option", 'actions=["enqueue","allocate","consolidate"]')
    assert done.returncode == 0, done.stderr
    runs(fleet, "wide", "infinity", agents=62)
    fleet.reaches("wide", "running")
    half = {"cpu": 1, "cuda.device": 4}
    for name in ("x", "f1", "y", "f2"):
        fleet.submit("sleep", "infinity", name=name, type="batch", resources=half, migratable=name == "x")
        fleet.reaches(name, "running")
    assert "it may be moved" in fleet.cli("session", "show", "x").stdout
    for name in ("f1", "f2"):
        fleet.end(name, forced=True)
        fleet.settles(name)
    before = fleet.session("x")["kernels"][0]["agent"]
    runs(fleet, "big", "infinity", agents=1)
    assert fleet.reaches("big", "running")["kernels"][0]["agent"] == before
    moved = fleet.reaches("x", "running")
    assert (moved["kernels"][0]["agent"], moved["attempt"]) == (fleet.session("y")["kernels"][0]["agent"], 2)
    assert [(one["action"], one["for_session"]) for one in moved["evictions"]] == [
        ("consolidate", fleet.session("big")["id"])
    ]
    assert "consolidate took all its kernels" in fleet.cli("why", "x").stdout
    assert fleet.session("y")["attempt"] == 1
    fleet.end_all()
    fleet.audit()


# Counts steps, saves them every now and then, and at the notice of an eviction; the first attempt never ends by itself.
TRAINING = """
import json, os, pathlib, sokovan, sys, time
saved = pathlib.Path("model.json")
start = json.loads(saved.read_text()) if saved.exists() else 0
print(f"starts at step {start}", flush=True)
def save(step):
    pathlib.Path("new").write_text(json.dumps(step))
    os.replace("new", saved)
    sokovan.checkpoint(step)
step = start
while step < start + 5 or os.environ["SOKOVAN_ATTEMPT"] == "1":
    step += 1
    if sokovan.eviction():
        save(step)
        print("notice", json.dumps(sokovan.eviction()), flush=True)
        sys.exit(0)
    time.sleep(0.02)
save(step)
print(f"ends at step {step}", flush=True)
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up` with real processes, whose scaling group evicts."""
    server = Embedded(tmp_path_factory.mktemp("machine"), timings=TIMINGS)
    with ended_well(server):
        server.start()
        for words in (
            ("scaling-group", "set", "default", "--option", ACTIONS),
            ("queue", "set", "default", "--min-runtime", "0s"),
        ):
            done = server.cli(*words)
            assert done.returncode == 0, done.stderr
        yield server


def test_a_training_loop_saves_on_notice_and_resumes_after_the_eviction(machine: Embedded, tmp_path: Path) -> None:
    cpus = machine.api("GET", "/agents").json()["items"][0]["slots"]["cpu"] // 1000
    whole = {"cpu": cpus, "mem": "256MiB"}
    train = machine.python(
        TRAINING, name="train", type="batch", priority=-5, workdir=str(tmp_path), resources=whole, stop_grace="50s"
    )
    machine.says(train, "starts at step 0")
    until(lambda: machine.session(train)["kernels"][0]["status"] == "running", what="it runs")
    machine.submit("sleep", "0.1", name="urgent", priority=5, resources=whole)
    machine.reaches("urgent", "running", "terminated")
    [receipt] = machine.session(train)["evictions"]
    assert (receipt["action"], receipt["reported"], receipt["whole"]) == ("preempt", True, True)
    step = receipt["step"]
    assert step > 0
    # It saved at the notice and left by itself: the grace period was not used up.
    assert receipt["lost_slot_s"] < 50 * cpus
    assert f"its last checkpoint (step {step})" in machine.cli("session", "show", "train").stdout
    assert f"since the checkpoint of step {step} were lost" in machine.cli("why", "train").stdout
    assert f"since the checkpoint of step {step} were lost" in machine.cli("why", "urgent").stdout
    ended = machine.reaches(train, "terminated", limit_s=240)
    assert (ended["result"], ended["attempt"]) == ("success", 2)
    assert f"starts at step {step}" in machine.output(train)
    assert json.loads((tmp_path / "model.json").read_text()) == step + 5
