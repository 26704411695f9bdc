"""The definition of NIM."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.nim import NimGenerator


def test_the_image_has_its_own_command_and_is_told_by_variables() -> None:
    asked = EngineRequest(variant="nim", model="a/b", served_name="m", environment={"NGC_API_KEY": "mine"})
    found = NimGenerator().define(asked)
    assert found.command == ()
    assert found.environment == {
        "NGC_API_KEY": "mine",
        "NIM_SERVER_PORT": "{port}",
        "NIM_SERVED_MODEL_NAME": "m",
        "NIM_MODEL_PATH": "hf://a/b",
    }
    assert found.probe.path == "/v1/health/ready"


def test_without_a_model_the_image_serves_its_own() -> None:
    found = NimGenerator().define(EngineRequest(variant="nim", served_name="m"))
    assert "NIM_MODEL_PATH" not in found.environment


def test_arguments_are_refused_as_there_is_no_command() -> None:
    with pytest.raises(InvalidSpec, match="arguments"):
        NimGenerator().define(EngineRequest(variant="nim", served_name="m", arguments=("--x",)))
