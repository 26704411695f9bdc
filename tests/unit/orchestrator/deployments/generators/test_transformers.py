"""The definition of Transformers."""

from __future__ import annotations

from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.transformers import TransformersGenerator


def test_the_engine_knows_the_model_by_its_own_name() -> None:
    found = TransformersGenerator().define(EngineRequest(variant="transformers", model="a/b", served_name="m"))
    assert found.command == (
        *("transformers", "serve", "a/b", "--host", "127.0.0.1", "--port", "{port}", "--continuous-batching"),
    )
    assert found.upstream_model == "a/b"
    assert found.event_usage == ""
    assert not found.checks_secret
