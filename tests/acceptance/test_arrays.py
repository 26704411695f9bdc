"""Job arrays: one command, many sessions that differ in their index."""

from __future__ import annotations

import sys

from tests.acceptance.embedded import Embedded, until

SMALL_FLAGS = ("--cpus", "0.1", "--mem", "64MiB")
SAYS_INDEX = "import os; print('index', os.environ['SOKOVAN_ARRAY_INDEX'], 'of', os.environ['SOKOVAN_ARRAY_COUNT'])"
SLEEPS = "import time; time.sleep(600)"


def run_array(server: Embedded, name: str, indexes: str, script: str, *options: str) -> None:
    """Submit an array by the command line, without waiting for it."""
    command = ("--", sys.executable, "-c", script)
    done = server.cli("run", "-d", "-n", name, "--array", indexes, *SMALL_FLAGS, *options, *command)
    assert (done.returncode, done.stdout.strip()) == (0, name), done.stderr


def test_one_command_runs_a_session_per_index_and_their_logs_are_found_by_index(server: Embedded) -> None:
    run_array(server, "sweep", "0-4:2,7", SAYS_INDEX)
    ended = server.cli("wait", "sweep", "--timeout", "240s")
    assert ended.returncode == 0, ended.stderr
    assert server.cli("logs", "sweep[7]").stdout == "index 7 of 4\n"
    shown = server.cli_json("session", "show", "sweep[2]")
    assert (shown["name"], shown["array"]["index"], shown["array"]["size"]) == ("sweep[2]", 2, 4)
    whole = server.cli_json("session", "show", "sweep")
    assert (whole["size"], whole["succeeded"], whole["result"]) == (4, 4, "success")
    absent = server.cli("logs", "sweep[1]")
    assert absent.returncode != 0
    assert "sweep[1]" in absent.stderr


def test_an_array_is_one_line_of_ps_keeps_its_limit_and_is_stopped_by_its_name(server: Embedded) -> None:
    run_array(server, "many", "0-9%2", SLEEPS)
    running = until(
        lambda: [one for one in server.cli_json("ps", "--array", "many") if one["status"] == "running"][1:],
        what="two members run",
    )
    [line] = [one for one in server.cli("ps").stdout.splitlines() if one.startswith("many")]
    assert "2/10" in line
    members = server.cli_json("ps", "--array", "many")
    waiting = [one for one in members if one["status"] == "pending"]
    assert (len(members), len(waiting)) == (10, 8)
    until(
        lambda: server.session(waiting[0]["id"])["reason"] == "ARRAY_LIMIT", what="a member waits for the array's limit"
    )
    assert "ARRAY_LIMIT" in server.cli("why", waiting[0]["name"]).stdout
    # One that ends makes room for one more.
    assert server.cli("stop", running[0]["name"]).returncode == 0
    server.settles(running[0]["id"])
    until(
        lambda: sum(one["status"] == "running" for one in server.cli_json("ps", "--array", "many")) == 2,
        what="the next member runs",
    )
    assert server.cli("stop", "many").returncode == 0
    for one in members:
        server.settles(one["id"])
    assert not [one for one in server.cli("ps").stdout.splitlines() if one.startswith("many")]
    whole = server.cli_json("session", "show", "many")
    assert (whole["result"], whole["failed"], whole["cancelled"]) == ("cancelled", 0, 10)


def test_a_session_depends_on_a_whole_array(server: Embedded) -> None:
    run_array(server, "parts", "1-2", "pass")
    after = server.cli(
        "run", "-d", "-n", "merge", *SMALL_FLAGS, "--depends-on", "parts", "--", sys.executable, "-c", "pass"
    )
    assert after.returncode == 0, after.stderr
    ended = server.settles("merge")
    assert ended["result"] == "success"
    assert all(ended["scheduled_at"] >= server.session(f"parts[{index}]")["ended_at"] for index in (1, 2))
    run_array(server, "broken", "1-2", "import os; raise SystemExit(int(os.environ['SOKOVAN_ARRAY_INDEX']) - 1)")
    assert server.cli("wait", "broken", "--timeout", "240s").returncode == 0
    refused = server.cli("run", "-d", "--depends-on", "broken", "--", "true")
    assert refused.returncode == 2
    assert "broken" in refused.stderr


def test_bad_arrays_are_refused_and_nothing_is_stored(server: Embedded) -> None:
    before = len(server.sessions())
    for indexes, said in (
        ("0-9999999", "10000000"),
        ("0-99999999999999999999", "0-9"),
        ("5-1", "5-1"),
        ("1,1-3", "twice"),
        ("0-9%0", "%0"),
        ("a-b", "a-b"),
        ("0-10:0", ":0"),
        ("", "empty"),
    ):
        done = server.cli("run", "-d", "--array", indexes, "--", "true")
        assert done.returncode == 2, (indexes, done.stderr)
        assert said in done.stderr, (indexes, done.stderr)
    taken = server.cli("run", "-d", "-n", "x[3]", "--", "true")
    assert taken.returncode == 2
    assert len(server.sessions()) == before
