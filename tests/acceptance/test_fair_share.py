"""Fair share on a running system: who used less starts first."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.embedded import Embedded, until

BUSY = "import time; time.sleep(600)"


@pytest.fixture(scope="module")
def server(own_server: Embedded) -> Embedded:
    """Of this module alone: it changes the scheduler of the default scaling group."""
    return own_server


def as_user(server: Embedded, name: str) -> dict[str, str]:
    """A new user of the default group, as environment of the command line."""
    assert server.cli("user", "set", name, "--group", "default").returncode == 0
    token = json.loads(server.cli("key", "add", name, "--json").stdout)["token"]
    return {"SOKOVAN_TOKEN": token, "SOKOVAN_URL": server.about["url"]}


def submitted(server: Embedded, who: dict[str, str], name: str) -> None:
    """Submit a session that takes every core, without waiting for it."""
    cores = str(server.cli_json("agent", "ls")[0]["slots"]["cpu"] / 1000)
    arguments = ("run", "--detach", "--name", name, "--cpus", cores, "--mem", "64MiB", "--", "python3", "-c", BUSY)
    done = server.cli(*arguments, **who)
    assert done.returncode == 0, done.stderr


def test_the_user_who_used_less_starts_first_although_it_came_later(server: Embedded) -> None:
    done = server.cli("scaling-group", "set", "default", "--scheduler", "fair-share", "--usage-half-life", "1d")
    assert done.returncode == 0, done.stderr
    ada, bob = as_user(server, "ada"), as_user(server, "bob")
    submitted(server, ada, "adas-first")
    server.reaches("adas-first", "running")
    submitted(server, ada, "adas-second")
    submitted(server, bob, "bobs")
    until(lambda: server.session("bobs")["reason"], what="the scheduler has looked at it")
    why = server.cli("why", "adas-second", **ada).stdout
    assert "fair-share" in why, why
    assert "user ada has used" in why, why
    server.end("adas-first")
    server.reaches("bobs", "running")
    assert server.session("adas-second")["status"] == "pending"
    mine = json.loads(server.cli("usage", "--json", **ada).stdout)
    assert {item["name"] for item in mine if item["kind"] == "user"} == {"ada"}
    every = server.cli_json("usage")
    assert {item["name"] for item in every if item["kind"] == "user"} >= {"ada", "bob"}
    for name in ("bobs", "adas-second"):
        server.end(name)
