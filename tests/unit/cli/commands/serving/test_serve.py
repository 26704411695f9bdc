"""`sokovan serve`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sokovan.cli.commands.serving import serve
from sokovan.cli.commands.serving.serve import name_for
from sokovan.wire.api.deployments import DeploymentWhyView, ReplicaView, ReplicaWhyView, RolloutView
from sokovan.wire.api.explanations import WhyView
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.deployment_views import DEPLOYMENT, NOON

PENDING = replace(DEPLOYMENT, status="provisioning", replicas_active=0)
READY = replace(DEPLOYMENT, status="running", replicas_active=2)
TOKEN = {"id": "t-1", "deployment": "d-1", "token": "ske_secret"}


def answering(server: CannedServer, *views: object) -> None:
    server.says("POST deployments", PENDING, status=201)
    server.says("POST deployments/d-1/tokens", TOKEN, status=201)
    server.says("GET deployments/d-1", *views)


def test_it_creates_a_deployment_waits_and_prints_url_model_and_key(server: CannedServer, sokovan: Sokovan) -> None:
    answering(server, PENDING, READY)
    status, out, err = sokovan("serve", "Qwen/Qwen3-8B", "--gpus", "1", "--replicas", "2", "--", "--max-model-len", "9")
    assert (status, out) == (0, "name   qwen\nurl    http://127.0.0.1:7647/v1\nmodel  qwen\nkey    ske_secret\n")
    assert err.splitlines()[:2] == ["qwen  PROVISIONING  0/2 replicas", "qwen  RUNNING  2/2 replicas"]
    assert server.body("POST deployments") == {
        "name": "qwen3-8b",
        "revision": {
            "engine": "vllm",
            "model": "Qwen/Qwen3-8B",
            "arguments": ["--max-model-len", "9"],
            "resources": {"cuda.device": "1"},
        },
        "replicas_min": 2,
    }


def test_the_toy_engine_needs_no_model(server: CannedServer, sokovan: Sokovan) -> None:
    answering(server, READY)
    assert sokovan("serve", "toy", "--detach", "--max-replicas", "4")[0] == 0
    assert server.body("POST deployments") == {
        "name": "toy",
        "revision": {"engine": "toy"},
        "replicas_max": 4,
        "scaling": {"metric": "concurrency"},
    }


@pytest.mark.slow
def test_the_words_after_custom_are_its_command(server: CannedServer, sokovan: Sokovan) -> None:
    answering(server, READY)
    words = ("--engine", "custom", "--health-path", "/up", "--", "python", "server.py", "--port", "{port}")
    assert sokovan("serve", "mine", *words)[0] == 0
    revision = server.body("POST deployments")["revision"]
    assert revision["command"] == ["python", "server.py", "--port", "{port}"]
    assert revision["probe"] == {"path": "/up"}


def test_json_has_the_deployment_and_the_key(server: CannedServer, sokovan: Sokovan) -> None:
    answering(server, READY)
    found = json.loads(sokovan("serve", "toy", "--json")[1])
    assert (found["key"], found["deployment"]["name"]) == ("ske_secret", "qwen")


def why(code: str, summary: str, *replicas: ReplicaWhyView) -> DeploymentWhyView:
    return DeploymentWhyView(
        name="qwen",
        status="provisioning",
        health="unhealthy",
        code=code,
        summary=summary,
        replicas=list(replicas),
    )


def failed(attempt: int, reason: str) -> ReplicaWhyView:
    replica = ReplicaView(id="r", revision=1, ordinal=0, attempt=attempt, status="failed", since=NOON)
    return ReplicaWhyView(replica=replica, summary=f"failed: {reason}")


def test_it_says_once_what_the_replicas_wait_for(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "QUIET_S", 0.0)
    summary = "no agent could ever hold cuda.device=8"
    session = WhyView(session="s-1", status="pending", verdict="waits", code="NEVER_FITS", summary=summary)
    replica = ReplicaView(id="r", revision=1, ordinal=0, attempt=1, status="starting", since=NOON)
    waiting = ReplicaWhyView(replica=replica, summary="its session has not started yet", why=session)
    answering(server, PENDING, PENDING, PENDING, READY)
    server.says("GET deployments/d-1/why", why("REPLICAS_WAIT", "0", waiting))
    status, _, err = sokovan("serve", "toy")
    assert status == 0
    assert err.splitlines()[:4] == [
        "qwen  PROVISIONING  0/2 replicas",
        f"qwen  waits: {summary}",
        "  see sokovan deployment why qwen",
        "qwen  RUNNING  2/2 replicas",
    ]


def test_it_says_how_each_attempt_failed(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "QUIET_S", 0.0)
    answering(server, PENDING, PENDING, PENDING, PENDING, PENDING, READY)
    server.says(
        "GET deployments/d-1/why",
        why("REPLICAS_FAIL", "0", failed(1, "exit code 3")),
        why("REPLICAS_FAIL", "0", failed(1, "exit code 3")),
        why("REPLICAS_WAIT", "0", failed(1, "of an hour ago")),
        why("REPLICAS_FAIL", "0", failed(2, "exit code 4")),
    )
    status, _, err = sokovan("serve", "toy")
    assert status == 0
    assert [line for line in err.splitlines() if "failed" in line] == [
        "qwen  replica 0 failed: exit code 3",
        "qwen  replica 0 failed: exit code 4",
    ]


@pytest.mark.slow
def test_it_gives_up_waiting_but_not_serving_after_the_timeout(server: CannedServer, sokovan: Sokovan) -> None:
    answering(server, PENDING)
    status, _, err = sokovan("serve", "toy", "--timeout", "1s")
    assert status == 6
    assert "sokovan deployment why" in err


def test_replicas_that_fail_again_and_again_are_an_error(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "QUIET_S", 0.0)
    answering(server, PENDING)
    server.says("GET deployments/d-1/why", why("CRASH_LOOP", "the last one failed: exit 3; further attempts wait"))
    status, out, err = sokovan("serve", "toy")
    assert (status, out) == (1, "")
    assert err.splitlines()[-2:] == [
        "error: qwen: the last one failed: exit 3; further attempts wait",
        "  hint: see sokovan deployment why qwen [deployment-failed]",
    ]


def test_a_crash_loop_during_an_update_is_left_to_the_rollout(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "QUIET_S", 0.0)
    rollout = RolloutView(
        id="o", revision_from=1, revision_to=2, strategy="rolling", status="progressing", started_at=NOON, since=NOON
    )
    updating = replace(PENDING, rollout=rollout)
    answering(server, updating, updating, READY)
    server.says("GET deployments/d-1/why", why("CRASH_LOOP", "the last one failed: exit 3"))
    assert sokovan("serve", "toy")[0] == 0


@pytest.mark.parametrize(
    ("model", "name"), [("Qwen/Qwen3-8B", "qwen3-8b"), ("/m/My Model.gguf", "my-model"), ("/m/dir/", "dir")]
)
def test_the_name_comes_from_the_model(model: str, name: str) -> None:
    assert name_for(model) == name


@pytest.mark.slow
def test_a_model_without_a_name_needs_one(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("serve", "///")[0] == 2
    assert server.lines == []
