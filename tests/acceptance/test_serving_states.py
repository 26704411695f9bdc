"""Deployments and their routes go through their states with real replicas."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sokovan.engines.toy import KEY_VARIABLE
from tests.acceptance.claims import shown_by
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.test_serving import LIMIT_S, SMALL, process_at, processes_at

pytestmark = [pytest.mark.server, pytest.mark.slow]

FAILS_AND_ENDS = shown_by(
    "test_a_deployment_is_scaled_fails_recovers_and_is_deleted_and_its_history_says_so",
    deployment="""pending:replicas_requested provisioning:scale_requested provisioning:scaled
        provisioning:replicas_healthy running:scale_requested running:scaled running:delete_requested
        destroying:replicas_gone""",
    route="""pending:configured provisioning:endpoint_healthy running:endpoints_changed running:health_failed
        error:endpoint_healthy running:delete_requested terminating:configuration_removed""",
    replica="""pending:enqueued starting:kernel_running warming:checks_passed active:drain_requested draining:drained
        stopping:session_ended active:exited""",
)
NEVER_READY = shown_by(
    "test_a_deployment_that_never_served_is_deleted",
    deployment="provisioning:delete_requested",
    route="provisioning:delete_requested",
)
ACTIVATED_EARLY = shown_by(
    "test_an_update_of_a_deployment_that_never_served_ends_when_no_replica_is_wanted",
    deployment="provisioning:revision_activated",
    rollout="planning:planned progressing:finished",
)
CHECKED = shown_by(
    "test_a_replica_that_fails_three_checks_gets_nothing_until_two_succeed",
    replica="active:checks_failed unhealthy:checks_passed",
)
NO_ROOM = shown_by(
    "test_an_update_that_is_to_fail_without_room_leaves_the_old_revision_as_it_is",
    rollout="planning:failed rolling_back:restored",
)
DELETED_IN_ERROR = shown_by(
    "test_a_deployment_whose_replica_does_not_come_back_is_deleted", route="error:delete_requested"
)


def detached(server: Embedded, name: str, *arguments: str) -> str:
    """The id of a new deployment that is not waited for."""
    done = server.cli("serve", "toy", "--name", name, *SMALL, "--detach", "--json", "--", *arguments)
    assert done.returncode == 0, done.stderr
    return str(server.cli_json("deployment", "show", name)["id"])


def route_is(server: Embedded, name: str, status: str) -> None:
    until(
        lambda: server.cli_json("route", "show", name)["status"] == status,
        limit_s=LIMIT_S,
        what=f"the route is {status}",
        tell=lambda: server.cli("deployment", "events", name).stdout,
    )


def removed(server: Embedded, name: str) -> None:
    assert server.cli("deployment", "rm", name, "--yes").returncode == 0
    until(lambda: name not in server.cli("deployment", "ls").stdout, limit_s=LIMIT_S, what="it is gone")


def test_a_deployment_is_scaled_fails_recovers_and_is_deleted_and_its_history_says_so(
    server: Embedded,
) -> None:
    identity = detached(server, "rows", "--start-seconds", "5")
    assert server.cli("deployment", "scale", "rows", "2").returncode == 0

    def shown() -> Mapping[str, Any]:
        found: Mapping[str, Any] = server.cli_json("deployment", "show", "rows")
        return found

    until(lambda: shown()["replicas_active"] == 2, limit_s=LIMIT_S, what="both replicas serve")
    assert server.cli("deployment", "scale", "rows", "1").returncode == 0
    until(lambda: len(shown()["replicas"]) == 1, limit_s=LIMIT_S, what="one replica is left")
    os.kill(process_at(shown()["replicas"][0]["port"]), signal.SIGKILL)
    route_is(server, "rows", "error")
    route_is(server, "rows", "running")
    removed(server, "rows")
    FAILS_AND_ENDS(server, identity)


def test_a_deployment_that_never_served_is_deleted(server: Embedded) -> None:
    identity = detached(server, "never", "--start-seconds", "600")
    route_is(server, "never", "provisioning")
    removed(server, "never")
    NEVER_READY(server, identity)


def test_an_update_of_a_deployment_that_never_served_ends_when_no_replica_is_wanted(server: Embedded) -> None:
    identity = detached(server, "early", "--start-seconds", "600")
    until(
        lambda: len(server.cli_json("deployment", "show", "early")["replicas"]) == 1,
        limit_s=LIMIT_S,
        what="its replica exists",
    )
    assert server.cli("deployment", "update", "early", "--detach", "--", "--tokens", "3").returncode == 0
    assert server.cli("deployment", "scale", "early", "0").returncode == 0
    until(
        lambda: server.cli_json("deployment", "show", "early")["revision"]["number"] == 2,
        limit_s=LIMIT_S,
        what="the new revision is the current one",
        tell=lambda: server.cli("deployment", "events", "early").stdout,
    )
    removed(server, "early")
    ACTIVATED_EARLY(server, identity)


def test_a_deployment_whose_replica_does_not_come_back_is_deleted(server: Embedded) -> None:
    identity = detached(server, "lost", "--tokens", "3")
    route_is(server, "lost", "running")
    os.kill(process_at(server.cli_json("deployment", "show", "lost")["replicas"][0]["port"]), signal.SIGKILL)
    route_is(server, "lost", "error")
    removed(server, "lost")
    DELETED_IN_ERROR(server, identity)


def engine_at(port: int) -> tuple[Callable[[str], httpx2.Response], Callable[[], int]]:
    """Sets the mode of the engine at a port, past the proxy, and reads how many requests it has had."""
    name = KEY_VARIABLE.encode() + b"="
    variables = [
        one for pid in processes_at(port) for one in (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
    ]
    [key] = {one.removeprefix(name).decode() for one in variables if one.startswith(name)}
    url, headers = f"http://127.0.0.1:{port}", {"authorization": f"Bearer {key}"}

    def set_mode(mode: str) -> httpx2.Response:
        return httpx2.post(f"{url}/toy/mode", json={"mode": mode}, headers=headers, timeout=LIMIT_S, trust_env=False)

    def requests() -> int:
        text = httpx2.get(f"{url}/metrics", timeout=LIMIT_S, trust_env=False).text
        [line] = [one for one in text.splitlines() if one.startswith("toy_requests_total")]
        return int(line.split()[-1])

    return set_mode, requests


def test_a_replica_that_fails_three_checks_gets_nothing_until_two_succeed(server: Embedded) -> None:
    done = server.cli("serve", "toy", "--name", "checked", "--replicas", "2", *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    body = {"model": "checked", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {told['key']}"}
    ask = partial(
        httpx2.post, f"{told['url']}/chat/completions", json=body, headers=headers, timeout=LIMIT_S, trust_env=False
    )

    def shown() -> Mapping[str, Any]:
        found: Mapping[str, Any] = server.cli_json("deployment", "show", "checked")
        return found

    def checked(after: str) -> list[Any]:
        lines = server.cli_json("deployment", "events", "checked")
        moves = {"unhealthy": "checks_failed", "active": "checks_passed"}
        return [one for one in lines if one["trigger"] == moves[after] and one["before"] != "warming"]

    def answers_until(after: str) -> bool:
        assert ask().status_code == 200
        return bool(checked(after))

    set_mode, requests = engine_at(shown()["replicas"][0]["port"])
    assert set_mode("unhealthy").status_code == 200
    until(partial(answers_until, "unhealthy"), limit_s=LIMIT_S, what="it is taken out")
    assert (shown()["status"], shown()["health"], shown()["replicas_active"]) == ("running", "degraded", 1)
    why = server.cli("deployment", "why", "checked").stdout
    assert "1 of 2 replicas serve" in why
    assert "UNHEALTHY" in why
    assert "the probe got status 503" in why

    before = requests()
    assert {ask().status_code for _ in range(10)} == {200}
    assert requests() == before, "a replica that fails its checks gets requests"
    assert set_mode("ok").status_code == 200
    until(partial(answers_until, "active"), limit_s=LIMIT_S, what="it serves again")
    [back] = checked("active")
    assert (back["before"], back["after"]) == ("unhealthy", "active")
    assert (shown()["health"], shown()["replicas_active"]) == ("healthy", 2)
    CHECKED(server, told["deployment"]["id"])
    removed(server, "checked")


def test_an_update_that_is_to_fail_without_room_leaves_the_old_revision_as_it_is(server: Embedded) -> None:
    done = server.cli("serve", "toy", "--name", "full", *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    [agent] = server.cli_json("agent", "ls")
    # A replica of this size fits only on an agent that has nothing else.
    everything = f"{agent['slots']['cpu'] / 1000:g}"
    updated = server.cli("deployment", "update", "full", "--when-full", "fail", "--cpus", everything)
    assert updated.returncode == 1
    assert "was rolled back: there is no room for an additional replica" in updated.stderr
    found = server.cli_json("deployment", "show", "full")
    assert (found["status"], found["revision"]["number"], found["replicas_active"]) == ("running", 1, 1)
    assert {one["revision"] for one in found["replicas"]} == {1}
    NO_ROOM(server, found["id"])
    removed(server, "full")
