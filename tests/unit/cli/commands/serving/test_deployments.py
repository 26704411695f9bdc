"""`sokovan deployment`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sokovan.wire.api.deployments import (
    DeploymentEventsView,
    DeploymentWhyView,
    EngineView,
    ProbeBody,
    ReplicaWhyView,
    RevisionBody,
    RevisionView,
    RolloutView,
    ScalingBody,
)
from sokovan.wire.api.sessions import HistoryLine
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.deployment_views import DEPLOYMENT, NOON

READY = replace(DEPLOYMENT, status="running", health="healthy", replicas_active=2)
ROLLOUT = RolloutView(
    id="o-1", revision_from=3, revision_to=4, strategy="canary", status="progressing", started_at=NOON, since=NOON
)
WHY = DeploymentWhyView(name="qwen", status="running", health="degraded", code="REPLICAS_WAIT", summary="1 of 2")


@pytest.mark.slow
def test_deployments_are_listed(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments", {"items": [DEPLOYMENT]})
    line = sokovan("deployment", "ls")[1].splitlines()[1]
    assert line.split()[:7] == ["qwen", "RUNNING", "degraded", "1/2", "3", "toy", "-"]
    assert json.loads(sokovan("deployment", "ls", "--all", "--json")[1])[0]["name"] == "qwen"
    assert "all=true" in server.lines[-1]


def test_a_deployment_is_shown_with_its_replicas(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen", replace(DEPLOYMENT, rollout=ROLLOUT))
    failed = replace(DEPLOYMENT.replicas[1], status="failed", reason="exit code 1")
    reason = ReplicaWhyView(replica=failed, summary="failed: exit code 1", log=["out of memory"])
    server.says("GET deployments/d-1/why", replace(WHY, replicas=[reason]))
    *shown, head, log = sokovan("deployment", "show", "qwen")[1].splitlines()
    assert head == "replica 1 (attempt 2) of revision 3  FAILED  failed: exit code 1"
    assert log == "  | out of memory"
    out = "\n".join(shown[:-1])
    assert "replicas   1 of 2 (fixed)" in out
    assert "rollout    canary progressing" in out
    assert "3 → 4" in out
    assert [line.split()[:5] for line in out.splitlines()[-2:]] == [
        ["0", "3", "ACTIVE", "s-1", "a1:20001"],
        ["1", "(attempt", "2)", "3", "STARTING"],
    ]


@pytest.mark.slow
def test_the_number_of_replicas_is_fixed_or_follows_demand(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen", replace(DEPLOYMENT, scaling=ScalingBody(metric="qps", target=5, down_s=60)))
    server.says("POST deployments/qwen/scale", READY)
    assert sokovan("deployment", "scale", "qwen", "3") == (0, "", "qwen scales to 3 replicas\n")
    assert sokovan("deployment", "scale", "qwen", "0", "--max", "8", "--target", "32")[0] == 0
    assert [body for what, body in server.asked if what.startswith("POST")] == [
        {"replicas_min": 3, "scaling": {"down_s": 60}},
        {"replicas_min": 0, "replicas_max": 8, "scaling": {"metric": "concurrency", "target": 32, "down_s": 60}},
    ]
    assert sokovan("deployment", "scale", "qwen", "3", "--target", "32")[0] == 2
    assert sokovan("deployment", "scale", "qwen", "3", "--metric", "qps")[0] == 2
    timed = ("--max", "8", "--metric", "ttft_p95", "--target", "800")
    assert sokovan("deployment", "scale", "qwen", "1", *timed)[0] == 0
    assert server.asked[-1][1]["scaling"] == {"metric": "ttft_p95", "target": 800, "down_s": 60}


@pytest.mark.slow
def test_an_update_changes_what_is_given_and_keeps_the_rest(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen", DEPLOYMENT)
    server.says("POST deployments/d-1/update", replace(DEPLOYMENT, rollout=ROLLOUT))
    changed = replace(READY, revision=replace(READY.revision, number=4))
    server.says("GET deployments/d-1", replace(DEPLOYMENT, rollout=ROLLOUT), changed)
    words = ("--env", "A=b", "--strategy", "canary", "--share", "10", "--no-analysis", "--", "--tokens", "9")
    status, _, err = sokovan("deployment", "update", "qwen", *words)
    assert status == 0
    assert "qwen  RUNNING  1/2 replicas  revision 3 → 4 progressing" in err
    assert server.body("POST deployments/d-1/update") == {
        "revision": {
            "engine": "toy",
            "resources": {"cpu": 1},
            "arguments": ["--tokens", "9"],
            "environment": {"A": "b"},
        },
        "rollout": {"strategy": "canary", "share": 10, "analysis": False},
    }


def test_an_update_that_was_rolled_back_fails_with_the_reason(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen", DEPLOYMENT)
    server.says("POST deployments/d-1/update", replace(DEPLOYMENT, rollout=ROLLOUT))
    server.says("GET deployments/d-1", READY)
    line = HistoryLine(
        subject="rollout", sequence=1, before="progressing", after="rolling_back", trigger="failed", who="coordinator",
        code="failed", detail="new replicas failed repeatedly", at=NOON, last_at=NOON, times=1,
    )  # fmt: skip
    server.says("GET deployments/d-1/events", DeploymentEventsView(deployment="d-1", lines=[line]))
    status, _, err = sokovan("deployment", "update", "qwen", "--", "--tokens", "9")
    assert status == 1
    assert "the update of qwen was rolled back: new replicas failed repeatedly" in err


def test_an_update_that_was_rolled_back_is_over_though_replicas_are_missing(
    server: CannedServer, sokovan: Sokovan
) -> None:
    server.says("GET deployments/qwen", DEPLOYMENT)
    server.says("POST deployments/d-1/update", replace(DEPLOYMENT, rollout=ROLLOUT))
    server.says("GET deployments/d-1", replace(READY, replicas_active=1))
    server.says("GET deployments/d-1/events", DeploymentEventsView(deployment="d-1", lines=[]))
    assert sokovan("deployment", "update", "qwen", "--", "--tokens", "9")[0] == 1


@pytest.mark.slow
def test_an_update_that_changes_nothing_is_refused(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen", DEPLOYMENT)
    status, _, err = sokovan("deployment", "update", "qwen")
    assert (status, "nothing of qwen would change" in err) == (2, True)


def test_a_rollback_is_followed_to_its_end(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST deployments/qwen/rollback", replace(DEPLOYMENT, rollout=ROLLOUT))
    server.says("GET deployments/d-1", READY)
    assert sokovan("deployment", "rollback", "qwen")[0] == 0
    assert sokovan("deployment", "rollback", "qwen", "--detach", "--revision", "2")[0] == 0
    assert [body for line, body in server.asked if line == "POST deployments/qwen/rollback"] == [{}, {"revision": 2}]


def test_a_rollout_is_promoted(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST deployments/qwen/promote", READY)
    assert sokovan("deployment", "promote", "qwen") == (0, "", "qwen  RUNNING  2/2 replicas\n")


def test_revisions_are_listed(server: CannedServer, sokovan: Sokovan) -> None:
    older = RevisionView(number=2, revision=RevisionBody(engine="vllm", model="a/b"), created_at=NOON, created_by="bob")
    server.says("GET deployments/qwen/revisions", {"items": [DEPLOYMENT.revision, older]})
    rows = [line.split() for line in sokovan("deployment", "history", "qwen", "--utc")[1].splitlines()[1:]]
    assert [row[:3] for row in rows] == [["3", "toy", "-"], ["2", "vllm", "a/b"]]


def test_a_deployment_is_deleted_after_a_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("DELETE deployments/qwen", READY)
    assert sokovan("deployment", "rm", "qwen")[0] == 2
    assert sokovan("deployment", "rm", "qwen", "--yes") == (0, "", "qwen is being deleted\n")


def test_why_names_each_replica_that_waits(server: CannedServer, sokovan: Sokovan) -> None:
    waiting = ReplicaWhyView(replica=DEPLOYMENT.replicas[1], summary="its session waits for room")
    server.says("GET deployments/qwen/why", replace(WHY, replicas=[waiting]))
    out = sokovan("deployment", "why", "qwen")[1]
    assert out.splitlines()[0] == "qwen  RUNNING  degraded  REPLICAS_WAIT"
    assert "replica 1 (attempt 2) of revision 3  STARTING  its session waits for room" in out


@pytest.mark.slow
def test_a_plan_prints_the_command_and_creates_nothing(server: CannedServer, sokovan: Sokovan) -> None:
    planned = EngineView(
        engine="max",
        command=["max", "serve", "--model", "a b"],
        environment={"MAX_SERVE_PORT": "{port}"},
        probe=ProbeBody(path="/v1/health"),
        model="a/b",
        image="",
        concurrency_max=256,
        routing="prefix",
        checks_secret=False,
    )
    server.says("POST deployments/plan", planned)
    _, out, err = sokovan("deployment", "plan", "a/b", "--engine", "max")
    assert "max serve --model 'a b'" in out
    assert "{port}" in out
    assert "checks no key" in err
    assert server.body("POST deployments/plan")["revision"] == {"engine": "max", "model": "a/b"}
