"""Sessions that can never start, and the types of sessions, on a running system."""

from __future__ import annotations

import subprocess

from tests.acceptance.embedded import Embedded, until

SMALL = ("--cpus", "0.1", "--mem", "64MiB")
SLEEPS = ("--", "python3", "-c", "import time; time.sleep(600)")


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


def test_an_inference_session_is_refused_until_deployments_run(server: Embedded) -> None:
    before = len(server.sessions())
    refused = server.cli("run", "--detach", "--type", "inference", *SLEEPS)
    assert refused.returncode == 2
    assert "inference sessions belong to deployments" in refused.stderr
    assert len(server.sessions()) == before
