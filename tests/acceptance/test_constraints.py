"""Placement constraints on a running server: taints, label conditions, affinity."""

from __future__ import annotations

import pytest

from tests.acceptance.embedded import Embedded, until

LITTLE = ("--cpus", "0.2", "--mem", "64MiB", "--workdir", "none")


def reason(server: Embedded, name: str, code: str) -> None:
    """Wait until the scheduler gives a reason."""
    until(lambda: server.session(name)["reason"] == code, what=f"{name} waits for {code}")


def submitted(server: Embedded, name: str, *options: str, code: str = "pass") -> None:
    """Submit a session by the command line."""
    done = server.cli("run", "--detach", "-n", name, *LITTLE, *options, "--", "python3", "-c", code)
    assert done.returncode == 0, done.stderr


def test_a_taint_keeps_sessions_off_an_agent_until_they_tolerate_it_or_it_is_removed(server: Embedded) -> None:
    [agent] = server.cli_json("agent", "ls")
    tainted = server.cli("agent", "taint", agent["id"], "dedicated=ml", "spot:NoSchedule")
    assert tainted.returncode == 0, tainted.stderr
    assert server.cli("agent", "taint", agent["id"], "spot-").returncode == 0
    assert server.cli_json("agent", "show", agent["id"])["taints"] == ["dedicated=ml"]
    assert "dedicated=ml" in server.cli("agent", "ls", "-o", "wide").stdout
    submitted(server, "stranger")
    submitted(server, "welcome", "--tolerate", "dedicated=ml")
    assert server.settles("welcome")["result"] == "success"
    reason(server, "stranger", "AGENTS_TAINTED")
    assert "taints that it does not tolerate" in server.cli("why", "stranger").stdout
    assert server.cli("agent", "taint", agent["id"], "dedicated-").returncode == 0
    assert server.settles("stranger")["result"] == "success"


def test_a_condition_on_labels_and_affinity_hold_on_real_agents(server: Embedded) -> None:
    [agent] = server.cli_json("agent", "ls")
    assert server.cli("agent", "label", agent["id"], "zone=a").returncode == 0
    submitted(server, "elsewhere", "--where", "zone not in (a)")
    submitted(server, "beside", "--affinity", "app=db")
    submitted(server, "database", "--label", "app=db", "--where", "zone in (a, b)", code="import time; time.sleep(600)")
    server.reaches("database", "running")
    assert server.settles("beside")["result"] == "success"
    reason(server, "elsewhere", "NO_LABEL_MATCH")
    submitted(server, "second", "--label", "app=db", "--anti-affinity", "app=db")
    reason(server, "second", "AFFINITY")
    shown = server.cli("session", "show", "second").stdout
    assert "app=db" in next(line for line in shown.splitlines() if line.startswith("apart from"))
    server.end("database")
    assert server.settles("second")["result"] == "success"
    server.end("elsewhere")
    assert server.cli("agent", "label", agent["id"], "zone-").returncode == 0


@pytest.mark.parametrize(
    ("taint", "told"),
    [
        ("=ml", "key = '': is not 1 to 63 letters"),
        ("dedicated=ml:NoExecute", "the only one is NoSchedule"),
        ("never-there-", "is not a taint of the agent"),
    ],
)
def test_a_taint_that_cannot_be_set_or_removed_is_refused_and_nothing_is_stored(
    server: Embedded, taint: str, told: str
) -> None:
    [agent] = server.cli_json("agent", "ls")
    done = server.cli("agent", "taint", agent["id"], taint)
    assert done.returncode == 2, done.stdout
    assert told in done.stderr
    assert server.cli_json("agent", "show", agent["id"])["taints"] == []


def test_a_label_cannot_be_used_to_set_a_taint(server: Embedded) -> None:
    [agent] = server.cli_json("agent", "ls")
    done = server.cli("agent", "label", agent["id"], "sokovan.taint/dedicated=ml")
    assert done.returncode == 2
    assert "sokovan agent taint" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--tolerate", "=ml"),
        ("--where", "zone"),
        ("--where", "zone in ()"),
        ("--affinity", "app"),
        ("--anti-affinity", "app=x within"),
    ],
)
def test_a_constraint_that_cannot_be_read_is_refused_and_nothing_is_stored(
    server: Embedded, options: tuple[str, str]
) -> None:
    done = server.cli("run", "-n", "refused", *LITTLE, *options, "--", "true")
    assert done.returncode == 2, done.stdout
    assert "write" in done.stderr
    assert all(one["name"] != "refused" for one in server.sessions())
