"""`sokovan shell`: a shell in a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sokovan.cli.commands.sessions import shell
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import pending, session


class Recorded:
    """Notes which commands were opened, instead of opening them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[tuple[str, list[str]]] = []
        monkeypatch.setattr("sokovan.sdk.sync.sessions.Kernels.exec", self._open)
        monkeypatch.setattr(shell, "forward_streams", lambda _execution, **_options: 3)

    @contextmanager
    def _open(self, ref: str, command: list[str], **_options: object) -> Iterator[None]:
        self.opened.append((ref, command))
        yield


@pytest.mark.slow
def test_a_session_of_its_own_is_started_and_ended_with_the_shell(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(monkeypatch)
    server.says("POST sessions", pending(), status=201)
    server.streams("GET sessions/s-1/events", ("session", pending()), ("session", session()))
    server.says("DELETE sessions/s-1", session(status="terminating"))
    assert sokovan("shell", "--gpus", "1", "--program", "bash")[0] == 3
    assert recorded.opened == [("s-1", ["bash"])]
    assert server.body("POST sessions") == {"type": "interactive", "resources": {"cuda.device": "1"}}
    assert server.lines[-1] == "DELETE sessions/s-1"


def test_a_session_that_runs_is_left_running(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(monkeypatch)
    assert sokovan("shell", "ddp")[0] == 3
    assert recorded.opened == [("ddp", ["/bin/sh"])]
    assert server.asked == []


@pytest.mark.slow
def test_a_session_that_never_runs_is_ended_too(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions", pending())
    server.streams("GET sessions/s-1/events", ("session", pending(status="cancelled", version=2)))
    server.says("DELETE sessions/s-1", pending(status="cancelled"))
    status, _, err = sokovan("shell")
    assert status == 125
    assert "[never-reached]" in err
    assert server.lines[-1] == "DELETE sessions/s-1"


@pytest.mark.slow
def test_a_file_is_not_for_a_shell(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("shell", "-f", "x.yaml")[0] == 2
    assert server.asked == []
