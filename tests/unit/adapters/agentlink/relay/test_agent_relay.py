"""The end of a relay in the process with the links: what it refuses."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from sokovan.adapters.agentlink.relay.agent_relay import RelayServer, failure, metrics_answer
from sokovan.adapters.agentlink.relay.process_messages import MetricsWanted
from sokovan.adapters.agentlink.relay.remote_agents import ManagerProcessAway, Relay, RelayedStates
from sokovan.domain.errors import InvalidInput
from sokovan.ports.agent_gateway import AgentRefused


async def test_a_process_without_links_knows_its_metrics_only(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        async with RelayServer(metrics_answer(lambda: b"up 1\n")).served(listener.dup()):
            assert await Relay(path).metrics() == b"up 1\n"
            with pytest.raises(AgentRefused, match="this process does not know it"):
                await RelayedStates(Relay(path)).fresh()


async def test_bytes_that_are_no_request_end_their_connection_only(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        async with RelayServer(metrics_answer(lambda: b"up 1\n")).served(listener.dup()):
            for content in (b"\x00\x00\x00\x01\xc1", b"\xff\xff\xff\xff"):
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write(content)
                assert await reader.read() == b""
                writer.close()
            assert await Relay(path).metrics() == b"up 1\n"


async def test_a_listener_that_does_not_answer_counts_as_away(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with pytest.raises(ManagerProcessAway, match="in time"):
            await Relay(path).ask("", MetricsWanted(), bytes, allowed_s=0.01)


def test_another_error_of_a_port_is_told_as_unreachable() -> None:
    outcome = failure(InvalidInput("the name is wrong"))
    assert (outcome.kind, outcome.problem) == ("unreachable", "the name is wrong")
