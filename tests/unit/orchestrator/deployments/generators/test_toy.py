"""The definition of the toy engine."""

from __future__ import annotations

from sokovan.domain.serving.engine import EngineRequest
from sokovan.engines.toy import KEY_VARIABLE, read_options
from sokovan.orchestrator.deployments.generators.toy import ToyGenerator

KEY = "key"


def test_the_engine_understands_its_command() -> None:
    asked = EngineRequest(variant="toy", served_name="m", secret=KEY, port="8000", arguments=("--tokens", "3"))
    found = ToyGenerator().define(asked)
    options = read_options(found.command[2:])
    assert (options.host, options.port, options.model, options.tokens) == ("127.0.0.1", 8000, "m", 3)
    assert found.environment == {KEY_VARIABLE: KEY}
    assert found.event_usage == "usage"


def test_a_replica_is_small_so_that_several_fit_on_any_machine() -> None:
    found = ToyGenerator().define(EngineRequest(variant="toy", served_name="m", secret=KEY))
    assert found.resources == {"cpu": "0.25", "mem": "256Mi"}
