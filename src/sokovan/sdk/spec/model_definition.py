"""Reads `model-definition.yaml`, Backend.AI's description of a model service.

Example:
    models:
      - name: simple
        model_path: /models
        service:
          start_command: [python, -m, http.server, "8000"]
          port: 8000
          health_check: {path: /health}

There each service has a network of its own; here it gets a leased port, so its port number
is replaced by `{port}` in the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec import fields
from sokovan.sdk.spec.spec_yaml import described, read_nodes, spec_error
from sokovan.yaml_reader import YamlNode

PORT_MARK = "{port}"
_MODEL = ("name", "model_path", "service", "metadata")
_SERVICE = ("start_command", "port", "health_check", "pre_start_actions", "shell")
# Failures in a row and the time to start are the system's: a model that still loads has not failed.
_HEALTH_CHECK = ("path", "interval", "max_wait_time", "expected_status_code", "max_retries", "initial_delay")
# Words that mean something to a shell only, which there is none.
_SHELL = re.compile(r"[|&;<>`]|\$[({\w]")
_EXAMPLE = "see docs/howto/serve-with-an-engine.md for an example"


@dataclass(frozen=True, slots=True)
class ModelDefinition:
    """The first model of a file: its command with `{port}`, and its health check."""

    name: str
    model_path: str
    command: tuple[str, ...]
    health_path: str = ""
    interval_ms: int = 10_000
    timeout_ms: int = 15_000


def read_model_definition(text: str, file: str) -> ModelDefinition:
    """The model of a file. Raises InvalidSpecFile."""
    try:
        return _definition(text, file)
    except InvalidSpecFile as error:
        if error.hint == InvalidSpecFile.hint:  # that of session files
            error.hint = _EXAMPLE
        raise


def _definition(text: str, file: str) -> ModelDefinition:
    nodes = read_nodes(text, file)
    if len(nodes) != 1:
        raise InvalidSpecFile(f"{file}: the file has {len(nodes)} documents, not one")
    entries = fields.entries_of(nodes[0], ("models",), what="a model definition")
    models = entries["models"].items if "models" in entries else ()
    if len(models) != 1:
        problem = f"a model definition lists one model here, not {len(models)}"
        raise spec_error(nodes[0].position, problem, hint="create a deployment for each model")
    model = _needed(models[0], _MODEL, ("name", "model_path", "service"), what="a model")
    service = _needed(model["service"], _SERVICE, ("start_command", "port"), what="a service")
    if "pre_start_actions" in service and service["pre_start_actions"].items:
        raise spec_error(
            service["pre_start_actions"].key_position,
            "actions before the start are not supported",
            hint="do them in a program of your own that then starts the engine",
        )
    path, interval_ms, timeout_ms = _health_check(service)
    return ModelDefinition(
        name=fields.text(model["name"]),
        model_path=fields.text(model["model_path"]),
        command=_command(service["start_command"], fields.number(service["port"])),
        health_path=path,
        interval_ms=interval_ms,
        timeout_ms=timeout_ms,
    )


def _needed(node: YamlNode, known: tuple[str, ...], needed: tuple[str, ...], *, what: str) -> Mapping[str, YamlNode]:
    entries = fields.entries_of(node, known, what=what)
    for key in needed:
        if key not in entries:
            raise spec_error(node.position, f"{what} needs the key {key!r}")
    return entries


def _command(node: YamlNode, port: int) -> tuple[str, ...]:
    if node.kind == "list":
        words = fields.words(node)
    else:
        line = fields.text(node)
        if _SHELL.search(line):
            hint = 'write it as a list, for example ["bash", "-c", "..."]'
            raise spec_error(node.position, "the command needs a shell, and none is used", hint=hint)
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise spec_error(node.position, f"cannot split the command: {error}") from error
    number = re.compile(rf"(?<![\d.]){port}(?![\d.])")
    found = tuple(number.sub(PORT_MARK, word) for word in words)
    if not any(PORT_MARK in word for word in found):
        problem = f"the command does not name its port {port}, and it will get another one"
        raise spec_error(node.position, problem, hint=f"write {PORT_MARK} where the port belongs")
    return found


def _health_check(service: Mapping[str, YamlNode]) -> tuple[str, int, int]:
    """Path, interval and time limit; without a check, a connection is the check."""
    default = ModelDefinition("", "", ())
    node = service.get("health_check")
    if node is None or node.kind == "null":
        return "", default.interval_ms, default.timeout_ms
    entries = _needed(node, _HEALTH_CHECK, ("path",), what="a health check")
    expected = entries.get("expected_status_code")
    if expected is not None and not 200 <= fields.number(expected) <= 299:
        raise spec_error(expected.position, "a healthy answer has a status from 200 to 299 here")
    interval_ms = _milliseconds(entries["interval"]) if "interval" in entries else default.interval_ms
    timeout_ms = _milliseconds(entries["max_wait_time"]) if "max_wait_time" in entries else default.timeout_ms
    return fields.text(entries["path"]), interval_ms, timeout_ms


def _milliseconds(node: YamlNode) -> int:
    given = fields.amount(node)
    if isinstance(given, str) or not 0.1 <= given <= 3600:
        raise spec_error(node.position, f"expected seconds from 0.1 to 3600, not {described(node)}")
    return round(given * 1000)
