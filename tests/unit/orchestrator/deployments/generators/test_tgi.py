"""The definition of TGI."""

from __future__ import annotations

from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.tgi import TgiGenerator

KEY = "key"


def test_the_engine_knows_the_model_by_its_own_id() -> None:
    found = TgiGenerator().define(EngineRequest(variant="tgi", model="a/b", served_name="m", secret=KEY))
    assert found.command == (
        *("text-generation-launcher", "--model-id", "a/b", "--hostname", "127.0.0.1"),
        *("--port", "{port}", "--num-shard", "1"),
    )
    assert found.environment == {"API_KEY": KEY}
    assert found.event_usage == ""
    assert found.upstream_model == "a/b"
