"""Time on a running server: short sessions before a large one, bookings, deadlines and loans."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.api.mapping.times import time_text
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well

pytestmark = pytest.mark.slow

AGENTS = 64


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up --fake 64x8`."""
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


def in_seconds(seconds: float) -> str:
    """The time so many seconds from now."""
    return time_text(SystemClock().now_ms() + round(seconds * 1000))


def milliseconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000


def agents_of(fleet: Embedded) -> list[str]:
    return sorted(str(one["id"]) for one in fleet.api("GET", "/agents").json()["items"])


def books(fleet: Embedded, *words: str) -> tuple[int, str]:
    """The outcome of a command that books agents."""
    done = fleet.cli(*words)
    return done.returncode, done.stdout + done.stderr


def test_a_booking_that_can_be_met_is_accepted_and_its_session_starts_on_time(fleet: Embedded) -> None:
    first, second = agents_of(fleet)[:2]
    runs(fleet, "busy", agents=AGENTS, time_limit="10m", preemptible=False)
    fleet.reaches("busy", "running")
    create = ("booking", "create", "demo", "--for", "2h", "--agent", first, "--queue", "default")
    status, told = books(fleet, *create, "--from", in_seconds(60))
    assert status != 0
    assert "session busy on agent" in told
    assert "the earliest time is 2" in told
    fleet.end("busy", forced=True)
    fleet.settles("busy")
    later = ("booking", "create", "later", "--for", "2h", "--agent", second, "--queue", "default")
    assert books(fleet, *later, "--from", in_seconds(3_600))[0] == 0
    runs(fleet, "early", booking="later")
    explains(fleet, "early", "its booking later begins in")
    assert books(fleet, "booking", "rm", "later", "--yes")[0] == 0
    some = ("booking", "create", "some", "--for", "2h", "--slot", "gpu=9", "--queue", "default")
    assert books(fleet, *some, "--from", in_seconds(3_600))[0] == 0
    assert len(fleet.cli_json("booking", "show", "some")["agents"]) == 2
    assert books(fleet, "booking", "rm", "some", "--yes")[0] == 0
    fleet.end("early", forced=True)
    starts_at = in_seconds(12)
    assert books(fleet, *create, "--from", starts_at)[0] == 0
    assert "demo" in fleet.cli("booking", "ls").stdout
    assert first in fleet.cli("booking", "show", "demo").stdout
    # Others use its agents only if they end in time; the rest of the cluster is theirs.
    runs(fleet, "others", agents=AGENTS - 1)
    assert first not in {one["agent"] for one in fleet.reaches("others", "running")["kernels"]}
    runs(fleet, "outside")
    explains(fleet, "outside", "booked by demo")
    runs(fleet, "inside", booking="demo")
    started = fleet.reaches("inside", "running")
    assert [one["agent"] for one in started["kernels"]] == [first]
    assert milliseconds(started["scheduled_at"]) >= milliseconds(starts_at)
    assert "demo" in fleet.cli("session", "show", "inside").stdout
    assert fleet.session("outside")["status"] == "pending"
    refused = fleet.cli("run", "--detach", "--booking", "nothing", "--", "true")
    assert "there is no booking" in refused.stderr
    assert books(fleet, "booking", "rm", "demo", "--yes")[0] == 0


def test_agents_in_maintenance_are_free_of_sessions_until_it_is_removed(fleet: Embedded) -> None:
    agent = agents_of(fleet)[0]
    assert books(fleet, "agent", "maintenance", agent, "--from", in_seconds(0), "--for", "1h")[0] == 0
    runs(fleet, "large", agents=AGENTS)
    explains(fleet, "large", f"booked by maintenance-{agent}")
    assert books(fleet, "booking", "rm", f"maintenance-{agent}", "--yes")[0] == 0
    fleet.reaches("large", "running")


def test_a_session_without_a_limit_leaves_for_a_booking_in_time_and_comes_back_and_finishes(fleet: Embedded) -> None:
    runs(fleet, "rest", agents=AGENTS - 1, preemptible=False)
    runs(fleet, "busy", seconds="30", stop_grace="1s")
    [agent] = {one["agent"] for one in fleet.reaches("busy", "running")["kernels"]}
    fleet.reaches("rest", "running")
    create = ("booking", "create", "demo", "--for", "2h", "--agent", agent, "--queue", "default")
    status, told = books(fleet, *create, "--from", in_seconds(4))
    assert status != 0
    assert f"session busy on agent {agent} could not be evicted by then, with its grace" in told
    starts_at = in_seconds(14)
    status, told = books(fleet, *create, "--from", starts_at, "--dry-run")
    assert (status, "all kernels of busy of" in told, "it waits again" in told) == (0, True, True), told
    assert books(fleet, *create, "--from", starts_at)[0] == 0
    explains(fleet, "busy", "makes room for booking demo, with notice at")
    runs(fleet, "inside", booking="demo")
    [receipt] = fleet.reaches("busy", "pending")["evictions"]
    assert (receipt["action"], receipt["for_booking"]) == ("booking", "demo")
    assert milliseconds(receipt["ends_by"]) <= milliseconds(starts_at)
    assert milliseconds(receipt["ended_at"]) <= milliseconds(starts_at)
    assert "booking demo" in fleet.cli("session", "show", "busy").stdout
    shown = fleet.cli("booking", "show", "demo").stdout
    assert "slot seconds lost" in shown, shown
    [inside] = fleet.reaches("inside", "running")["kernels"]
    assert inside["agent"] == agent
    explains(fleet, "busy", "booking took all its kernels for booking demo")
    fleet.end("inside", forced=True)
    assert books(fleet, "booking", "rm", "demo", "--yes")[0] == 0
    assert fleet.reaches("busy", "running")["attempt"] == 2
    assert fleet.reaches("busy", "terminated")["result"] == "success"


def test_agents_are_left_before_their_maintenance_begins(fleet: Embedded) -> None:
    runs(fleet, "endless", agents=AGENTS, minimum=AGENTS - 1, stop_grace="1s")
    fleet.reaches("endless", "running")
    # The kernel of the highest rank is one without which the others go on.
    last = max(fleet.session("endless")["kernels"], key=lambda one: int(one["rank"]))["agent"]
    maintenance = ("agent", "maintenance", last, "--from", in_seconds(9), "--for", "1h")
    assert books(fleet, *maintenance)[0] == 0
    until(lambda: fleet.session("endless")["evictions"], what="the eviction")
    [receipt] = fleet.session("endless")["evictions"]
    assert (receipt["whole"], receipt["kernels"], receipt["for_name"]) == (False, 1, f"booking maintenance-{last}")
    until(lambda: fleet.api("GET", f"/agents/{last}").json()["kernels"] == 0, what="no kernel on the agent")
    assert fleet.session("endless")["status"] == "running"
    assert books(fleet, "booking", "rm", f"maintenance-{last}", "--yes")[0] == 0
    until(lambda: fleet.api("GET", f"/agents/{last}").json()["kernels"] == 1, what="the kernel is back")


def test_the_session_with_the_nearest_latest_start_goes_first_and_a_deadline_that_is_lost_is_told(
    fleet: Embedded,
) -> None:
    assert fleet.cli("scaling-group", "set", "default", "--scheduler", "deadline").returncode == 0
    runs(fleet, "full", agents=AGENTS)
    fleet.reaches("full", "running")
    runs(fleet, "later", agents=AGENTS)
    runs(fleet, "soon", agents=AGENTS, time_limit="10m", deadline=in_seconds(1_800))
    runs(fleet, "lost", agents=AGENTS, time_limit="10m", deadline=in_seconds(300))
    explains(fleet, "lost", "its deadline cannot be met")
    assert "deadline" in fleet.cli("session", "show", "soon").stdout
    fleet.end("full", forced=True)
    fleet.reaches("soon", "running")
    assert fleet.session("later")["status"] == "pending"
    assert fleet.cli("scaling-group", "set", "default", "--scheduler", "fifo").returncode == 0


def test_what_a_queue_lends_comes_back_within_its_time_and_the_borrower_waits_again(fleet: Embedded) -> None:
    actions = 'actions=["enqueue","allocate","preempt","reclaim","backfill"]'
    options = ("--option", actions, "--option", "queue_policy=capacity")
    assert fleet.cli("scaling-group", "set", "default", *options).returncode == 0
    half = f"gpu={4 * AGENTS}"
    whole = [
        word for amount in (half, f"cpu={2 * AGENTS}", f"mem={AGENTS // 4}TiB") for word in ("--guarantee", amount)
    ]
    lends = ("--deserved", half, *whole, "--return-within", "20s")
    assert fleet.cli("queue", "set", "lender", *lends).returncode == 0
    assert fleet.cli("queue", "set", "borrower", "--deserved", half, "--max", half).returncode == 0
    half_agents = AGENTS // 2
    runs(fleet, "own", agents=half_agents, queue="borrower")
    runs(fleet, "slow", agents=half_agents, queue="borrower", borrow=True, stop_grace="30s")
    runs(fleet, "guest", agents=half_agents, queue="borrower", borrow=True, stop_grace="5s")
    loan = fleet.reaches("guest", "running")
    assert loan["loan"] == "lender"
    assert "on loan from" in fleet.cli("session", "show", "guest").stdout
    [line] = [one for one in fleet.cli("ps").stdout.splitlines() if "guest" in one]
    assert "on loan from lender" in line
    shares = fleet.cli_json("queue", "show", "lender")["shares"]
    assert {one["queue"] for one in shares} == {"lender"}
    assert fleet.session("slow")["status"] == "pending"
    assert "20" in fleet.cli("queue", "show", "lender", "-o", "wide").stdout
    runs(fleet, "host", agents=half_agents, queue="lender")
    started = fleet.reaches("host", "running")
    [receipt] = fleet.session("guest")["evictions"]
    assert receipt["for_session"] == started["id"]
    assert milliseconds(receipt["ends_by"]) - milliseconds(receipt["at"]) <= 20_000
    waiting = fleet.reaches("guest", "pending")
    assert (waiting["loan"], fleet.session("own")["status"]) == ("", "running")
    # Another test of this module may follow, in whatever order.
    fleet.end_all()
    for queue in ("lender", "borrower"):
        done = fleet.cli("queue", "rm", queue, "--yes")
        assert done.returncode == 0, done.stderr
    options = ("--option", "actions=null", "--option", "queue_policy=null")
    assert fleet.cli("scaling-group", "set", "default", *options).returncode == 0
