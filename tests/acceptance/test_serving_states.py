"""Deployments and their routes go through their states with real replicas."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from tests.acceptance.claims import shown_by
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.test_serving import LIMIT_S, SMALL, process_at

pytestmark = [pytest.mark.server, pytest.mark.slow]

FAILS_AND_ENDS = shown_by(
    "test_a_deployment_is_scaled_fails_recovers_and_is_deleted_and_its_history_says_so",
    deployment="""pending:replicas_requested provisioning:scale_requested provisioning:scaled
        provisioning:replicas_healthy running:scale_requested running:scaled running:delete_requested
        destroying:replicas_gone""",
    route="""pending:configured provisioning:endpoint_healthy running:endpoints_changed running:health_failed
        error:endpoint_healthy running:delete_requested terminating:configuration_removed""",
)
NEVER_READY = shown_by(
    "test_a_deployment_that_never_served_is_deleted",
    deployment="provisioning:delete_requested",
    route="provisioning:delete_requested",
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


def test_a_deployment_whose_replica_does_not_come_back_is_deleted(server: Embedded) -> None:
    identity = detached(server, "lost", "--tokens", "3")
    route_is(server, "lost", "running")
    os.kill(process_at(server.cli_json("deployment", "show", "lost")["replicas"][0]["port"]), signal.SIGKILL)
    route_is(server, "lost", "error")
    removed(server, "lost")
    DELETED_IN_ERROR(server, identity)
