"""Shares of queues on a running server: set, shown, and refused."""

from __future__ import annotations

import pytest

from tests.acceptance.embedded import Embedded, until

LITTLE = ("--cpus", "0.2", "--mem", "64MiB", "--workdir", "none")


@pytest.fixture(scope="module")
def server(own_server: Embedded) -> Embedded:
    """Of this module alone: it changes the options of the default scaling group."""
    return own_server


def test_the_shares_of_a_queue_are_set_shown_and_kept(server: Embedded) -> None:
    shares = ("--guarantee", "cpu=0.5", "--deserved", "cpu=1", "--max", "cpu=2")
    done = server.cli("queue", "set", "research", *shares, "--not-reclaimable")
    assert done.returncode == 0, done.stderr
    shown = server.cli("queue", "show", "research").stdout
    for text in ("cpu=0.5", "cpu=1", "cpu=2"):
        assert text in shown
    assert "reclaimable" in shown
    assert server.cli("queue", "set", "research", "--weight", "3").returncode == 0
    queue = server.cli_json("queue", "show", "research")
    assert (queue["reclaimable"], queue["weight"], queue["guarantee"]) == (False, 3, {"cpu": "0.5"})


def test_what_a_queue_is_guaranteed_is_not_lent_to_others(server: Embedded) -> None:
    group = server.cli("scaling-group", "set", "default", "--option", "queue_policy=capacity")
    assert group.returncode == 0, group.stderr
    [agent] = server.cli_json("agent", "ls")
    whole = f"cpu={agent['slots']['cpu'] / 1000:g}"
    assert server.cli("queue", "set", "kept", "--guarantee", whole).returncode == 0
    assert server.cli("run", "-d", "-n", "outside", *LITTLE, "--", "true").returncode == 0
    until(lambda: server.session("outside")["reason"] == "QUEUE_LIMIT", what="the guarantee is kept")
    inside = server.cli("run", "-n", "inside", "--queue", "kept", *LITTLE, "--", "true")
    assert inside.returncode == 0, inside.stderr
    assert server.cli("queue", "set", "kept", "--guarantee", "cpu=").returncode == 0
    assert server.settles("outside")["result"] == "success"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--guarantee", "cpu=2", "--max", "cpu=1"), "guarantees 2000 cpu but may only use 1000"),
        (("--guarantee", "cpu=2", "--deserved", "cpu=1"), "guarantees 2000 cpu but deserves only 1000"),
        (("--deserved", "cpu=2", "--max", "cpu=1"), "deserves 2000 cpu but may only use 1000"),
        (("--guarantee", "warp=2"), "no scaling group has this slot"),
        (("--guarantee", "cpu"), "NAME=VALUE"),
        (("--guarantee", "cpu=1", "--parent", "top"), "guarantees 1000 cpu to the queues below it, but has 0 itself"),
        (("--deserved", "cpu=9", "--parent", "top"), "has 9000 cpu deserved by the queues below it, but has 8000"),
        (("--parent", "nobody"), "nobody"),
    ],
)
def test_shares_that_contradict_are_refused_and_nothing_is_stored(
    server: Embedded, options: tuple[str, ...], problem: str
) -> None:
    assert server.cli("queue", "set", "top", "--deserved", "cpu=8").returncode == 0
    refused = server.cli("queue", "set", "refused", *options)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert problem in refused.stderr
    assert all(queue["name"] != "refused" for queue in server.cli_json("queue", "ls"))
