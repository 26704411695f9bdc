"""The socket of a container engine: given, named by a variable, or found."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.docker.engine import sockets
from sokovan.adapters.docker.engine.client import EngineUnavailable
from sokovan.adapters.docker.engine.sockets import engine_socket, usual_sockets


def test_a_given_socket_comes_before_the_variable() -> None:
    environment = {"DOCKER_HOST": "unix:///run/other.sock"}
    assert engine_socket("unix:///run/mine.sock", environment) == Path("/run/mine.sock")
    assert engine_socket("", environment) == Path("/run/other.sock")


def test_an_engine_of_another_machine_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="is no Unix socket"):
        engine_socket("tcp://10.0.0.1:2375", {})


def test_the_first_socket_that_exists_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "usual_sockets", lambda _: [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(EngineUnavailable, match="no container engine was found") as caught:
        engine_socket("", {})
    assert "apt-get install docker.io" in caught.value.hint
    (tmp_path / "b").touch()
    assert engine_socket("", {}) == tmp_path / "b"


def test_the_sockets_of_docker_and_podman_are_tried() -> None:
    tried = usual_sockets({"XDG_RUNTIME_DIR": "/run/me"})
    assert {Path("/run/docker.sock"), Path("/run/me/docker.sock"), Path("/run/me/podman/podman.sock")} <= set(tried)
