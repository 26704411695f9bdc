"""The small model, and the program that stands for `llama-server`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.llama_cpp import LlamaCppGenerator
from sokovan.testing.servers.llama_engine import PROGRAM, install, write_model

pytestmark = pytest.mark.slow


def test_the_model_is_small_and_the_same_each_time(tmp_path: Path) -> None:
    one, other = write_model(tmp_path / "a.gguf"), write_model(tmp_path / "b.gguf")
    assert one.read_bytes() == other.read_bytes()
    assert one.stat().st_size < 1 << 20


def test_the_program_is_found_by_its_name(tmp_path: Path) -> None:
    install(tmp_path)
    helped = subprocess.run([tmp_path / PROGRAM, "--help"], check=True, capture_output=True, text=True)
    command = LlamaCppGenerator().define(EngineRequest(variant="llama-cpp", model="a/b", served_name="m")).command
    assert command[0] == PROGRAM
    assert all(word in helped.stdout for word in command if word.startswith("--"))
