"""Requests for deployments."""

from __future__ import annotations

import pytest

from sokovan.sdk.core import deployment_calls
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.deployments import DeploymentBody, EndpointTokenBody, RevisionBody, ScaleBody


def test_a_creation_is_repeatable_by_its_key_and_leaves_out_defaults() -> None:
    call = deployment_calls.create(DeploymentBody(name="qwen", revision=RevisionBody(engine="toy")), key="k")
    assert (call.method, call.path, call.repeatable) == ("POST", "/api/v1/deployments", True)
    assert call.body == {"name": "qwen", "revision": {"engine": "toy"}}
    assert call.headers == {"Idempotency-Key": "k"}


def test_changes_name_the_deployment_and_the_action() -> None:
    assert deployment_calls.scale("qwen", ScaleBody(replicas_min=3)).path == "/api/v1/deployments/qwen/scale"
    assert deployment_calls.promote("qwen").path == "/api/v1/deployments/qwen/promote"
    assert deployment_calls.rollback("qwen", 2).body == {"revision": 2}
    assert deployment_calls.revoke_token("qwen", "t-1").path == "/api/v1/deployments/qwen/tokens/t-1"


def test_what_would_be_done_twice_is_not_repeated() -> None:
    assert not deployment_calls.rollback("qwen", None).repeatable
    assert not deployment_calls.new_token("qwen", EndpointTokenBody()).repeatable


def test_an_unknown_filter_is_an_error() -> None:
    with pytest.raises(InvalidSetting, match="deployments have no filter"):
        deployment_calls.listing({"colour": "red"})  # type: ignore[typeddict-unknown-key]  # the point of the test
