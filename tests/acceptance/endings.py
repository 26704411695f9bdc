"""Ends the server of a test: no kernel is left, and the store's invariants hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.acceptance.agent_process import AgentProcess
from tests.acceptance.embedded import Embedded, until
from tests.kernels import kill, relatives


@contextmanager
def ended_well(server: Embedded, *agents: AgentProcess) -> Iterator[None]:
    """End everything the test started, and check the invariants if it passed."""
    folders = [server.kernels, *(agent.kernels for agent in agents)]
    try:
        yield
        if not server.is_up:
            server.start(*(["--no-agent"] if agents else []))
        for agent in agents:
            agent.revive()
        server.end_all()
        server.audit()
        until(lambda: not [pid for folder in folders for pid in relatives(folder)], what="no kernel is left")
        assert "Traceback" not in server.said, server.said
    finally:
        for agent in agents:
            agent.quit()
        server.quit()
        for folder in folders:
            for pid in relatives(folder):
                kill(pid)
