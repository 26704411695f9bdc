"""Finds the socket of a container engine on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sokovan.adapters.docker.engine.client import SCHEME, EngineUnavailable

VARIABLE = "DOCKER_HOST"
_HINT = (
    "install one: apt-get install docker.io, or podman with `podman system service`; or name its socket with --engine"
)


def engine_socket(given: str, environment: Mapping[str, str]) -> Path:
    """The socket that was given, that of DOCKER_HOST, or the first one that exists.

    Raises EngineUnavailable.
    """
    named = given or environment.get(VARIABLE, "")
    if named:
        if not named.startswith((SCHEME, "/")):
            raise EngineUnavailable(
                f"{named} is no Unix socket: an agent uses the engine of its own machine",
                hint="name a socket, such as unix:///run/docker.sock",
            )
        return Path(named.removeprefix(SCHEME))
    for path in usual_sockets(environment):
        if path.exists():
            return path
    raise EngineUnavailable("no container engine was found on this machine", hint=_HINT)


def usual_sockets(environment: Mapping[str, str]) -> list[Path]:
    """The sockets of Docker and Podman, of the machine and of the user."""
    own = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    places = [Path("/run/docker.sock"), Path("/var/run/docker.sock"), Path(own, "docker.sock")]
    return [*places, Path("/run/podman/podman.sock"), Path(own, "podman/podman.sock")]
