"""Reading Backend.AI's model definitions."""

from __future__ import annotations

import pytest

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec.model_definition import ModelDefinition, read_model_definition

# As in Backend.AI's documentation.
SIMPLE = """
models:
  - name: "simple-http-server"
    model_path: "/models"
    service:
      start_command:
        - python
        - -m
        - http.server
        - --directory
        - /home/work
        - "8000"
      port: 8000
      health_check:
        path: /
        interval: 10.0
        max_retries: 10
        max_wait_time: 15.0
        expected_status_code: 200
        initial_delay: 60.0
"""


def service(lines: str) -> str:
    return f"models:\n  - name: m\n    model_path: /m\n    service:\n      port: 8000\n      {lines}\n"


def test_the_example_of_the_format_is_read() -> None:
    assert read_model_definition(SIMPLE, "model-definition.yaml") == ModelDefinition(
        name="simple-http-server",
        model_path="/models",
        command=("python", "-m", "http.server", "--directory", "/home/work", "{port}"),
        health_path="/",
        interval_ms=10_000,
        timeout_ms=15_000,
    )


def test_a_command_in_one_line_is_split_and_its_port_replaced() -> None:
    read = read_model_definition(service("start_command: 'serve --bind=0:8000 --x \"a 18000 b\" 8000.5'"), "f")
    assert read.command == ("serve", "--bind=0:{port}", "--x", "a 18000 b", "8000.5")
    assert read.health_path == ""


def test_a_mark_for_the_port_may_be_written_too() -> None:
    assert read_model_definition(service("start_command: serve {port}"), "f").command == ("serve", "{port}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (service("start_command: cd /m && serve 8000"), "f:6:22: the command needs a shell"),
        (service("start_command: serve"), "f:6:22: the command does not name its port 8000"),
        (service("start_command: 'serve \"8000'"), "cannot split the command"),
        (service("start_command: serve 8000\n      pre_start_actions: [{action: log}]"), "actions before the start"),
        (service("start_command: serve 8000\n      health_check: {path: /, expected_status_code: 404}"), "200 to 299"),
        (service("start_command: serve 8000\n      health_check: {path: /, interval: -1}"), "seconds from 0.1 to 3600"),
        (service("start_command: serve 8000\n      health_check: {}"), "needs the key 'path'"),
        (service("start_comand: serve 8000"), "did you mean 'start_command'"),
        ("models: []", "one model here, not 0"),
        ("modells: []", "did you mean 'models'"),
        ("", "0 documents"),
        ("models: [{name: m, model_path: /m}]", "needs the key 'service'"),
    ],
)
def test_a_mistake_is_shown_with_its_position(text: str, problem: str) -> None:
    with pytest.raises(InvalidSpecFile) as caught:
        read_model_definition(text, "f")
    assert problem in caught.value.message
