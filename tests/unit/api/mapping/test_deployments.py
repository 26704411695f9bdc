"""Deployments between wire and domain."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.api.mapping.deployments import (
    deployment_spec,
    deployment_view,
    engine_view,
    revision_spec,
    revision_view,
    token_spec,
    token_view,
)
from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.ids import (
    DEFAULT_QUEUE,
    AgentId,
    DeploymentId,
    EndpointTokenId,
    KernelId,
    QueueName,
    ReplicaId,
    SessionId,
)
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.serving.engine import EngineRequest
from sokovan.domain.serving.records import (
    DeploymentRecord,
    EndpointTokenRecord,
    ReplicaRecord,
    RevisionRecord,
    RolloutRecord,
)
from sokovan.domain.serving.replica import Endpoint
from sokovan.domain.serving.rollout import RolloutStrategy
from sokovan.orchestrator.deployments.generators.registry import GeneratorRegistry
from sokovan.wire.api.deployments import (
    DeploymentBody,
    EndpointTokenBody,
    ProbeBody,
    RequestLimitsBody,
    RevisionBody,
    RolloutBody,
    ScalingBody,
)
from sokovan.wire.api.sessions import MountBody

D1 = DeploymentId("d-1")
WHOLE = RevisionBody(
    engine="custom",
    model="a/b",
    command=["serve", "{port}"],
    arguments=["--x"],
    image="venv:serve",
    resources={"cpu": "2", "cuda.device": "1"},
    size=2,
    mounts=[MountBody(source="/data", target="/m")],
    environment={"A": "b"},
    secrets={"TOKEN": None},
    probe=ProbeBody(path="/up", timeout_ms=900),
    startup_timeout=60,
    drain_timeout=0,
    concurrency_max=8,
    limits=RequestLimitsBody(queued_max=5),
)


def spec(**changes: Any) -> Any:
    body = DeploymentBody(**{"name": "qwen", "revision": WHOLE, **changes})
    return deployment_spec(body, D1, Owner(user="ada"), queue=DEFAULT_QUEUE)


def test_a_revision_comes_back_as_it_was_sent() -> None:
    record = RevisionRecord(D1, 1, revision_spec(WHOLE), 0, "ada")
    assert revision_view(record).revision == WHOLE


def test_durations_may_be_written_with_units() -> None:
    found = revision_spec(RevisionBody(engine="toy", startup_timeout="30m", drain_timeout="1h30m"))
    assert (found.startup_timeout_s, found.drain_timeout_s) == (1800, 5400)
    with pytest.raises(InvalidSpec, match="revision: startup_timeout"):
        revision_spec(RevisionBody(engine="toy", startup_timeout="soon"))


def test_without_an_upper_bound_the_number_of_replicas_is_fixed() -> None:
    assert (spec(replicas_min=3).replicas_min, spec(replicas_min=3).replicas_max) == (3, 3)
    assert spec(replicas_min=0, replicas_max=8).replicas_max == 8
    assert spec(queue="research").queue == QueueName("research")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a/b"},
        {"replicas_min": -1},
        {"replicas_min": 10**9},
        {"replicas_min": 3, "replicas_max": 2},
        {"scaling": ScalingBody(target=0)},
        {"rollout": RolloutBody(surge=0, unavailable=0)},
        {"rollout": RolloutBody(steps=[50, 5, 100])},
    ],
)
def test_a_deployment_out_of_bounds_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        spec(**wrong)


def test_a_deployment_is_shown_with_replicas_rollout_and_health_but_no_secret() -> None:
    record = DeploymentRecord(
        spec=spec(replicas_min=2), status=DeploymentStatus.RUNNING, version=1, replicas_desired=2, revision=1
    )
    endpoint = Endpoint(KernelId("k-1"), 1, AgentId("a1"), 20_001)
    replicas = [
        ReplicaRecord(
            replica_id=ReplicaId(f"r-{n}"),
            place=ReplicaPlace(D1, 1, n, 1),
            status=status,
            version=1,
            secret=f"hidden-{n}",
            since_ms=0,
            session_id=SessionId(f"s-{n}"),
            endpoint=endpoint if status is ReplicaStatus.ACTIVE else None,
        )
        for n, status in enumerate((ReplicaStatus.ACTIVE, ReplicaStatus.STARTING))
    ]
    rollout = RolloutRecord(
        rollout_id="o-1",
        deployment_id=D1,
        revision_from=1,
        revision_to=2,
        strategy=RolloutStrategy.CANARY,
        status=RolloutStatus.PROGRESSING,
        version=1,
        surge=1,
        unavailable=0,
    )
    revision = RevisionRecord(D1, 1, revision_spec(WHOLE))
    view = deployment_view(record, revision, replicas=replicas, rollout=rollout, url="http://g/v1")
    assert (view.health, view.replicas_active, view.models, view.url) == ("degraded", 1, ["qwen"], "http://g/v1")
    assert [(one.agent, one.port, one.session) for one in view.replicas] == [("a1", 20_001, "s-0"), (None, None, "s-1")]
    assert view.rollout is not None
    assert view.rollout.revision_to == 2
    assert "hidden" not in repr(view)
    assert (view.scaling, view.rollout_policy) == (ScalingBody(), RolloutBody())


def test_a_token_is_shown_with_its_limits_and_without_its_digest() -> None:
    body = EndpointTokenBody(name="ci", expires_at="2030-01-01T00:00:00Z", requests_per_minute=60)
    record = EndpointTokenRecord(
        spec=token_spec(body, EndpointTokenId("t-1"), D1), digest="0" * 64, created_ms=0, created_by="ada"
    )
    view = token_view(record)
    assert (view.expires_at, view.requests_per_minute) == ("2030-01-01T00:00:00.000Z", 60)
    assert "0" * 64 not in repr(view)
    with pytest.raises(InvalidInput):
        token_spec(EndpointTokenBody(requests_per_minute=0), EndpointTokenId("t-1"), D1)


def test_an_engine_is_shown_with_the_mark_of_its_port() -> None:
    definition = GeneratorRegistry().define(EngineRequest(variant="toy", served_name="m"))
    view = engine_view("toy", definition, image="host")
    assert "{port}" in view.command
    assert (view.probe.path, view.model, view.image) == ("/health", "m", "host")
