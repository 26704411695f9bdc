"""The spec of a deployment."""

from __future__ import annotations

import pytest

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec.deployment_spec import DEPLOYMENT_FIELDS, read_deployment_documents
from sokovan.wire.api.deployments import (
    DeploymentBody,
    ProbeBody,
    RequestLimitsBody,
    RevisionBody,
    RolloutBody,
    ScalingBody,
)
from sokovan.wire.api.sessions import MountBody

HEAD = "apiVersion: sokovan/v1\nkind: Deployment\n"
WHOLE = f"""\
{HEAD}name: qwen
engine: custom
model: Qwen/Qwen3-8B
run: python serve.py --port {{port}}
arguments: [--verbose]
image: venv:torch
environment: {{SEED: 1}}
secrets: {{HF_TOKEN: hf_x}}
resources: {{cpu: 8, gpu: 1}}
size: 2
mounts: ["/a:/b"]
probe: {{path: /health, warmingIntervalMs: 500, intervalMs: 2000, timeoutMs: 1000}}
startupTimeout: 30m
drainTimeout: 60
concurrency: 32
limits: {{queuedMax: 10, queueWaitS: 5, coldWaitS: 60}}
modelNames: [qwen, qwen-8b]
access: project
replicas: 1
maxReplicas: 8
scaling: {{metric: qps, target: 20, stableS: 30, panicS: 3, panicHoldS: 20, downS: 100, idleS: 50}}
rollout:
  {{strategy: canary, surge: 2, unavailable: 1, whenFull: wait, steps: [10, 100], holdS: 5, promoteAfterS: 9, keepS: 7,
   analysis: false, share: 20}}
routing: sticky
stickyBy: cookie:sid
scalingGroup: big
queue: serving
group: nlp
priority: 5
"""


def read(text: str) -> list[DeploymentBody]:
    return [one.body for one in read_deployment_documents(text, "f.yaml")]


def refused(text: str) -> InvalidSpecFile:
    with pytest.raises(InvalidSpecFile) as caught:
        read(text)
    return caught.value


def test_every_key_reaches_the_request() -> None:
    assert read(WHOLE) == [
        DeploymentBody(
            name="qwen",
            revision=RevisionBody(
                engine="custom",
                model="Qwen/Qwen3-8B",
                command=["python", "serve.py", "--port", "{port}"],
                arguments=["--verbose"],
                image="venv:torch",
                resources={"cpu": 8, "cuda.device": 1},
                size=2,
                mounts=[MountBody(source="/a", target="/b")],
                environment={"SEED": "1"},
                secrets={"HF_TOKEN": "hf_x"},
                probe=ProbeBody(path="/health", warming_interval_ms=500, interval_ms=2000, timeout_ms=1000),
                startup_timeout="30m",
                drain_timeout=60,
                concurrency_max=32,
                limits=RequestLimitsBody(queued_max=10, queue_wait_s=5, cold_wait_s=60),
            ),
            model_names=["qwen", "qwen-8b"],
            access="project",
            replicas_min=1,
            replicas_max=8,
            scaling=ScalingBody(
                metric="qps", target=20, stable_s=30, panic_s=3, panic_hold_s=20, down_s=100, idle_s=50
            ),
            rollout=RolloutBody(
                strategy="canary", surge=2, unavailable=1, when_full="wait", steps=[10, 100], hold_s=5,
                promote_after_s=9, keep_s=7, analysis=False, share=20,
            ),
            routing="sticky",
            sticky_by="cookie:sid",
            scaling_group="big",
            queue="serving",
            group="nlp",
            priority=5,
        )
    ]  # fmt: skip
    assert all(f"\n{key}:" in f"\n{WHOLE}" for key in DEPLOYMENT_FIELDS if key != "command")


def test_a_most_number_of_replicas_alone_means_that_they_follow_demand() -> None:
    assert read(f"{HEAD}name: a\nengine: toy\nreplicas: 0\nmaxReplicas: 4\n")[0].scaling.metric == "concurrency"
    assert read(f"{HEAD}name: a\nengine: toy\n")[0].scaling.metric == "manual"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}name: a\nenginee: toy\n", "f.yaml:4:1: a deployment has no key 'enginee'; did you mean 'engine'?"),
        (f"{HEAD}name: a\n", "f.yaml:1:1: a deployment needs the key 'engine'"),
        (f"{HEAD}name: a\nengine: toy\nreplicas: many\n", "f.yaml:5:11: expected a whole number"),
        (f"{HEAD}name: a\nengine: toy\nrollout: {{strategy: blue}}\n", "f.yaml:5:21: 'blue' is none of"),
        (f"{HEAD}name: a\nengine: toy\n---\n{HEAD}name: a\nengine: toy\n", "f.yaml:8:7: the deployment 'a' is given"),
        ("", "f.yaml: the file is empty"),
    ],
)
def test_a_mistake_is_shown_with_its_position(text: str, said: str) -> None:
    assert said in refused(text).message


def test_a_document_of_another_kind_names_the_command_for_it() -> None:
    error = refused("apiVersion: sokovan/v1\nkind: Session\nname: a\n")
    assert "f.yaml:2:7: this document is a session" in error.message
    assert "sokovan run -f" in error.hint
    missing = refused("apiVersion: sokovan/v1\nname: a\nengine: toy\n")
    assert missing.hint == "write kind: Deployment"
