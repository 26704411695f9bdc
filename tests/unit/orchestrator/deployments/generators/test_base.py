"""What generators share: checks of requests, variables, commands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.engine import PORT_MARK, EngineRequest, Probe
from sokovan.orchestrator.deployments.generators.base import substituted, variables
from sokovan.orchestrator.deployments.generators.registry import BUILT_IN, GeneratorRegistry

REGISTRY = GeneratorRegistry()
KEY = "s3cret"
ENGINES = sorted(set(BUILT_IN) - {"custom"})


def request(variant: str, **changes: object) -> EngineRequest:
    given = EngineRequest(variant=variant, model="/m/a.gguf", served_name="qwen", secret=KEY, mounts=("/m",))
    return replace(given, **changes)  # type: ignore[arg-type]  # fields of the request


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_serves_on_the_leased_port_of_this_machine_only(engine: str) -> None:
    definition = REGISTRY.define(request(engine))
    words = [*definition.command, *definition.environment.values()]
    assert any(PORT_MARK in word for word in words)
    assert not any("0.0.0.0" in word for word in words)  # noqa: S104  # it is refused


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_request_gives_the_same_definition(engine: str) -> None:
    assert REGISTRY.define(request(engine)) == REGISTRY.define(request(engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_local_model_is_not_looked_up_on_a_hub(engine: str) -> None:
    assert REGISTRY.define(request(engine)).environment["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in REGISTRY.define(request(engine, model="Qwen/Qwen3-8B")).environment


@pytest.mark.parametrize("engine", ENGINES)
def test_the_probe_of_the_user_takes_the_place_of_the_engines_own(engine: str) -> None:
    assert REGISTRY.define(request(engine, probe=Probe(path="/up"))).probe == Probe(path="/up")
    assert REGISTRY.define(request(engine)).probe.path


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"nim"}))
def test_arguments_are_appended_and_may_not_set_what_the_system_sets(engine: str) -> None:
    assert REGISTRY.define(request(engine, arguments=("--flag", "1"))).command[-2:] == ("--flag", "1")
    for wrong in BUILT_IN[engine]().reserved:
        with pytest.raises(InvalidSpec, match="set by the system"):
            REGISTRY.define(request(engine, arguments=(f"{wrong}=x",)))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_with_a_command_of_its_own_refuses_another(engine: str) -> None:
    with pytest.raises(InvalidSpec, match="command"):
        REGISTRY.define(request(engine, command=("python",)))


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"nim", "toy"}))
def test_an_engine_without_a_model_is_refused(engine: str) -> None:
    with pytest.raises(InvalidSpec, match="needs a model"):
        REGISTRY.define(request(engine, model=""))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_key_of_a_replica_is_checked_or_said_not_to_be(engine: str) -> None:
    definition = REGISTRY.define(request(engine, secret=KEY))
    is_told = any(KEY in word for word in (*definition.command, *definition.environment.values()))
    assert is_told is definition.checks_secret


def test_the_users_variables_are_kept_except_those_of_the_engine() -> None:
    asked = request("vllm", environment={"HF_HUB_OFFLINE": "0", "VLLM_API_KEY": "mine", "A": "b"})
    assert variables(asked, VLLM_API_KEY="key") == {"HF_HUB_OFFLINE": "0", "VLLM_API_KEY": "key", "A": "b"}


def test_only_known_names_in_braces_are_replaced() -> None:
    assert substituted('{port} {"a": {name}} {x}', {"port": "1", "name": "n"}) == '1 {"a": n} {x}'
