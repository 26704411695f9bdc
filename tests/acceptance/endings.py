"""How every server of a test is left: nothing runs, and the store keeps its laws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.acceptance.agent_process import AgentProcess
from tests.acceptance.embedded import Embedded, until
from tests.kernels import kill, relatives


@contextmanager
def ended_well(server: Embedded, *agents: AgentProcess) -> Iterator[None]:
    """Whatever happens meanwhile, nothing is left of it; and it must not have broken a law."""
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
