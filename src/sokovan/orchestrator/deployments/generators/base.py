"""DefinitionGenerator: the base of the generators, and what they share.

A generator reads no clock, no file and no network; the same request gives the same
definition. Commands are argument lists and never pass through a shell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.serving.engine import EngineDefinition, EngineRequest, Probe

# The path of smoke requests; an engine that serves embeddings only says that it has none, which is an answer too.
CHAT = "/v1/chat/completions"
# Where most engines say how many requests they have.
METRICS = "/metrics"


class DefinitionGenerator(ABC):
    """Turns a request into the command, variables and probe of one engine."""

    name: ClassVar[str]
    # Options that the generator sets; a user who set them too could bypass the proxy.
    reserved: ClassVar[tuple[str, ...]] = ()
    needs_model: ClassVar[bool] = True

    @abstractmethod
    def define(self, request: EngineRequest) -> EngineDefinition:
        """The definition of one replica. Raises InvalidSpec."""

    def checked(self, request: EngineRequest) -> EngineRequest:
        """The request, if this engine can serve it. Raises InvalidSpec."""
        if self.needs_model and not request.model:
            problem = f"{self.name} needs a model"
            raise InvalidSpec(what=request.what, field="model", value=request.model, problem=problem)
        if request.command:
            problem = f"{self.name} has a command of its own"
            hint = "give further arguments, or use the engine custom"
            raise InvalidSpec(what=request.what, field="command", value=request.command, problem=problem, hint=hint)
        for argument in request.arguments:
            if argument.partition("=")[0] in self.reserved:
                problem = "is set by the system"
                raise InvalidSpec(
                    what=request.what, field="arguments", value=argument, problem=problem, hint="leave it out"
                )
        return request


def variables(request: EngineRequest, **fixed: str) -> dict[str, str]:
    """The user's variables with those of the engine, which the user cannot replace.

    A local model is never looked up on a hub.
    """
    offline = {"HF_HUB_OFFLINE": "1"} if request.is_local else {}
    return {**offline, **request.environment, **{name: value for name, value in fixed.items() if value}}


def with_arguments(request: EngineRequest, *command: str) -> tuple[str, ...]:
    """The command of an engine, followed by the user's arguments."""
    return (*command, *request.arguments)


def probe_of(request: EngineRequest, path: str) -> Probe:
    """The user's probe, or a GET of the engine's own health path."""
    return request.probe or Probe(path=path)


def parallel(request: EngineRequest) -> str:
    """The number of devices over which a model is divided; one without accelerators."""
    return str(max(1, request.accelerators))


def substituted(text: str, values: Mapping[str, str]) -> str:
    """A word of a user's command with `{name}` replaced; other braces stay."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text
