"""Requests to definition generators: models, names, limits."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.serving.engine import (
    PORT_MARK,
    EngineDefinition,
    EngineRequest,
    Probe,
    UnknownEngine,
    require_model,
    with_port,
)


@pytest.mark.parametrize("model", ["gpt2", "Qwen/Qwen3-8B", "bartowski/Llama-3.2-1B-GGUF:Q4_K_M", "/models/a.gguf"])
def test_a_model_is_a_name_on_a_hub_or_a_path_beneath_a_mount(model: str) -> None:
    require_model(model, ["/models"], what="x")


@pytest.mark.parametrize(
    ("model", "mounts"),
    [
        ("/models/a", ()),
        ("/other/a", ("/models",)),
        ("/models2/a", ("/models",)),
        ("/models/../etc/passwd", ("/models",)),
        ("../a", ("/models",)),
        ("a/b/c", ()),
        ("-rf", ()),
        ("--help", ()),
        ("a b", ()),
        ("a\nb", ()),
        ("x" * 1000, ()),
        (7, ()),
    ],
)
def test_another_model_is_refused_with_its_name(model: object, mounts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSpec, match="model"):
        require_model(model, mounts, what="x")


def test_a_path_outside_the_mounts_is_named_with_the_mounts() -> None:
    with pytest.raises(InvalidSpec, match=r"none of the mounted folders \(/models, /data\)"):
        require_model("/etc/passwd", ["/models", "/data"], what="x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"served_name": "a b"},
        {"accelerators": -1},
        {"accelerators": 10**9},
        {"drain_timeout_s": -1},
        {"concurrency_max": 0},
        {"concurrency_max": 10**9},
        {"command": ("a\0",)},
        {"arguments": "one text"},
        {"environment": {"SOKOVAN_X": "1"}},
        {"secret": "a\r\nX-Other: b"},
        {"probe": "/health"},
    ],
)
def test_a_request_out_of_bounds_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        EngineRequest(**{"variant": "toy", "served_name": "m", **wrong})


@pytest.mark.parametrize("wrong", [{"path": "health"}, {"path": "//evil"}, {"interval_ms": 0}, {"timeout_ms": 10**12}])
def test_a_probe_out_of_bounds_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        Probe(**wrong)


def test_a_definition_out_of_bounds_is_refused() -> None:
    with pytest.raises(InvalidSpec):
        EngineDefinition(command=("a\0",), environment={}, probe=Probe(), upstream_model="m", concurrency_max=1)


def test_the_port_takes_the_place_of_its_mark_and_nothing_else() -> None:
    assert with_port(f"--port={PORT_MARK} {{other}}", 20_001) == "--port=20001 {other}"


def test_an_unknown_engine_is_answered_with_the_nearest_one() -> None:
    assert "did you mean vllm?" in str(UnknownEngine("vlm", ["vllm", "toy"]))
