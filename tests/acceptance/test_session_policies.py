"""Sessions that can never start, and the types of sessions, on a running system."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.acceptance.embedded import Embedded, until

SMALL = ("--cpus", "0.1", "--mem", "64MiB")
SLEEPS = ("--", "python3", "-c", "import time; time.sleep(600)")


@pytest.fixture(scope="module")
def server(own_server: Embedded) -> Embedded:
    """Of this module alone: it changes the limits of the default group."""
    return own_server


def done(finished: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that succeeded."""
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_what_can_never_pass_is_cancelled_and_what_may_pass_later_waits(server: Embedded) -> None:
    done(server.cli("quota", "set", "group:default", "cpu=0.2"))
    planned = server.cli("plan", "--cpus", "0.3", *SLEEPS)
    assert (planned.returncode, "could never start" in planned.stdout) == (6, True), planned.stdout

    done(server.cli("run", "--detach", "--name", "never", "--cpus", "0.3", "--mem", "64MiB", *SLEEPS))
    ended = server.reaches("never", "cancelled")
    assert ended["reason"] == "validation-failed"
    assert "group default requests 0.3 cpu with 0 of 0.2 in use" in ended["reason_detail"]
    why = done(server.cli("why", "never"))
    assert "VALIDATION_FAILED" in why, why
    assert "request less" in why, why

    done(server.cli("run", "--detach", "--name", "runs", "--cpus", "0.2", "--mem", "64MiB", *SLEEPS))
    done(server.cli("run", "--detach", "--name", "later", *SMALL, *SLEEPS))
    server.reaches("runs", "running")
    until(lambda: server.session("later")["reason"] == "QUOTA_GROUP", what="the quota holds the session")
    assert server.session("later")["status"] == "pending"
    server.end("runs")
    server.reaches("later", "running")
    server.end("later")
    done(server.cli("quota", "set", "group:default", "cpu=1000"))


def test_system_sessions_are_for_operators_and_use_no_quota(server: Embedded) -> None:
    done(server.cli("quota", "set", "group:default", "cpu=0.1"))
    done(
        server.cli("run", "--detach", "--name", "probe", "--type", "system", "--cpus", "0.3", "--mem", "64MiB", *SLEEPS)
    )
    server.reaches("probe", "running")
    done(server.cli("run", "--detach", "--name", "beside", *SMALL, *SLEEPS))
    server.reaches("beside", "running")
    done(server.cli("user", "set", "bob", "--group", "default"))
    token = json.loads(done(server.cli("key", "add", "bob", "--json")))["token"]
    as_bob = {"SOKOVAN_TOKEN": token, "SOKOVAN_URL": server.about["url"]}
    before = len(server.sessions())
    refused = server.cli("run", "--detach", "--type", "system", *SLEEPS, **as_bob)
    assert (refused.returncode, "for administrators" in refused.stderr) == (2, True), refused.stderr
    assert len(server.sessions()) == before
    for name in ("probe", "beside"):
        server.end(name)
    done(server.cli("quota", "set", "group:default", "cpu=1000"))


def test_an_inference_session_without_a_deployment_is_refused(server: Embedded) -> None:
    before = len(server.sessions())
    refused = server.cli("run", "--detach", "--type", "inference", *SLEEPS)
    assert refused.returncode == 2
    assert "inference sessions belong to deployments" in refused.stderr
    assert len(server.sessions()) == before
