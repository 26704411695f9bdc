"""The toy engine as a server of tests."""

from __future__ import annotations

import pytest

from sokovan.testing.servers.toy_engine import ToyEngineServer

pytestmark = pytest.mark.server


def test_it_starts_again_on_its_port_after_a_kill() -> None:
    with ToyEngineServer() as server:
        port = server.port
        server.kill()
        assert not server.answers()
        server.start()
        assert (server.answers(), server.port) == (True, port)
