"""Scaling groups on a running system: chosen by rules, private, with limits."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.acceptance.embedded import Embedded

SLEEPS = ("--", "python3", "-c", "import time; time.sleep(600)")


@pytest.fixture(scope="module")
def server(own_server: Embedded) -> Embedded:
    """Of this module alone: it changes who may use scaling groups."""
    return own_server


def done(finished: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that succeeded."""
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def groups(server: Embedded) -> Embedded:
    """A server with a private scaling group and one for interactive sessions, beside `default`."""
    done(server.cli("group", "set", "nlp"))
    done(server.cli("queue", "set", "desk"))
    done(server.cli("scaling-group", "set", "lab", "--private", "--assign", "group:nlp"))
    done(server.cli("scaling-group", "set", "shells", "--session-type", "interactive", "--default-queue", "desk"))
    return server


def bob(server: Embedded, *groups: str) -> dict[str, str]:
    """A user of these groups, as environment of the command line."""
    done(server.cli("user", "set", "bob", *(word for group in groups for word in ("--group", group))))
    token = json.loads(done(server.cli("key", "add", "bob", "--json")))["token"]
    return {"SOKOVAN_TOKEN": token, "SOKOVAN_URL": server.about["url"]}


def test_the_choice_and_the_groups_left_out_are_in_plan_why_and_history(groups: Embedded) -> None:
    shown = done(groups.cli("plan", "--cpus", "0.1", "--mem", "64MiB", *SLEEPS))
    assert "scaling group default: it has room now" in shown, shown
    assert "lab is private" in shown, shown
    assert "shells takes sessions of type interactive, not batch" in shown, shown

    done(groups.cli("run", "--detach", "--name", "chosen", "--cpus", "0.1", "--mem", "64MiB", *SLEEPS))
    groups.reaches("chosen", "running")
    assert groups.session("chosen")["scaling_group"] == "default"
    for command in (("why", "chosen"), ("session", "history", "chosen")):
        assert "shells takes sessions of type interactive" in done(groups.cli(*command)), command
    groups.end("chosen")


def test_a_type_goes_where_it_is_allowed_and_waits_in_that_groups_queue(groups: Embedded) -> None:
    done(groups.cli("scaling-group", "set", "default", "--session-type", "batch"))
    done(groups.cli("run", "--detach", "--name", "typed", "--type", "interactive", *SLEEPS))

    found = groups.session("typed")
    assert (found["scaling_group"], found["queue"]) == ("shells", "desk")
    refused = groups.cli("run", "--detach", "--type", "interactive", "--scaling-group", "default", *SLEEPS)
    assert refused.returncode != 0
    assert "takes sessions of type batch, not interactive" in refused.stderr
    groups.end("typed")
    groups.reaches("typed", "cancelled")
    done(groups.cli("scaling-group", "set", "default", "--session-type", ""))


def test_a_private_group_refuses_those_it_is_not_assigned_to(groups: Embedded) -> None:
    before = len(groups.sessions())
    refused = groups.cli("run", "--detach", "--scaling-group", "lab", *SLEEPS, **bob(groups, "default"))

    assert refused.returncode != 0
    assert "lab is private" in refused.stderr
    assert "scaling-group-private" in refused.stderr
    assert len(groups.sessions()) == before
    lab = ("--group", "nlp", "--scaling-group", "lab")
    done(groups.cli("run", "--detach", "--name", "in-lab", *lab, *SLEEPS, **bob(groups, "default", "nlp")))
    groups.end("in-lab")
    groups.reaches("in-lab", "cancelled")


def test_a_session_ends_with_the_longest_time_of_its_group(groups: Embedded) -> None:
    done(groups.cli("scaling-group", "set", "default", "--max-lifetime", "1s"))
    refused = groups.cli("run", "--detach", "--time-limit", "2s", "--scaling-group", "default", *SLEEPS)
    assert "ends sessions after 1s, before the time limit of 2s" in refused.stderr

    groups.submit("python3", "-c", "import time; time.sleep(600)", name="long")
    ended = groups.reaches("long", "terminated")
    assert (ended["reason"], ended["result"]) == ("lifetime-limit", "failure")
    assert "LIFETIME_REACHED" in done(groups.cli("why", "long"))
    assert "the most in scaling group default" in done(groups.cli("session", "show", "long"))
    done(groups.cli("scaling-group", "set", "default", "--max-lifetime", "1h"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--session-type", "btch"), "did you mean batch?"),
        (("--assign", "nlp"), "must be domain:NAME, group:NAME, user:NAME or keypair:NAME"),
        (("--assign", "group:nobody"), "nobody"),
        (("--default-queue", "nowhere"), "nowhere"),
        (("--max-lifetime", "0s"), "lifetime_max_s"),
    ],
)
def test_wrong_settings_are_refused_and_not_stored(groups: Embedded, options: tuple[str, ...], said: str) -> None:
    refused = groups.cli("scaling-group", "set", "wrong", *options)

    assert refused.returncode != 0
    assert said in refused.stderr, refused.stderr
    assert groups.api("GET", "/scaling-groups/wrong").status_code == 404


def test_all_settings_are_shown(groups: Embedded) -> None:
    done(groups.cli("scaling-group", "set", "lab", "--slot-priority", "cpu", "--pending-timeout", "2h"))
    shown = groups.cli_json("scaling-group", "show", "lab")

    assert (shown["public"], shown["assigned_to"], shown["slot_priority"]) == (False, ["group:nlp"], ["cpu"])
    assert (shown["pending_timeout_s"], shown["session_types"], shown["default_queue"]) == (7200, [], None)
    kept = groups.api("DELETE", "/queues/desk")
    assert (kept.status_code, kept.json()["detail"]) == (409, "queue 'desk' is in use by scaling group shells")


def test_the_root_queue_cannot_be_closed_and_nothing_is_stored(groups: Embedded) -> None:
    refused = groups.cli("queue", "set", "root", "--closed")
    assert refused.returncode != 0
    assert "the root queue cannot be closed" in refused.stderr
    assert all(queue["name"] != "root" for queue in groups.cli_json("queue", "ls"))
