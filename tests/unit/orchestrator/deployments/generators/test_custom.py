"""The definition of a program of the user's own."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.engine import EngineRequest, Probe
from sokovan.orchestrator.deployments.generators.custom import CustomGenerator


def test_port_model_and_name_are_replaced_in_the_words_of_the_command() -> None:
    asked = EngineRequest(
        variant="custom", model="a/b", served_name="m", command=("serve", "--bind=:{port}", "{model}", "{name}", "{x}")
    )
    assert CustomGenerator().define(asked).command == ("serve", "--bind=:{port}", "a/b", "m", "{x}")


def test_a_model_with_spaces_of_a_shell_stays_one_word() -> None:
    asked = EngineRequest(variant="custom", served_name="m", command=("sh", "-c", "echo {name}; exit"))
    assert CustomGenerator().define(asked).command == ("sh", "-c", "echo m; exit")


def test_without_a_probe_a_connection_is_the_check() -> None:
    asked = EngineRequest(variant="custom", served_name="m", command=("serve",))
    assert CustomGenerator().define(asked).probe == Probe()


def test_without_a_command_there_is_nothing_to_run() -> None:
    with pytest.raises(InvalidSpec, match="needs a command"):
        CustomGenerator().define(EngineRequest(variant="custom", served_name="m"))
