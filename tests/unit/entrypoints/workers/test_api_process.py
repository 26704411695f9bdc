"""The ports of a process of the API; the process itself runs in tests/acceptance."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from sokovan.adapters.agentlink.relay.agent_relay import RelayServer, metrics_answer
from sokovan.adapters.agentlink.relay.process_messages import JoiningWanted
from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.domain.ids import AgentId
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.embedded.event_publisher import EVENTS_HINT
from sokovan.entrypoints.workers.api_process import _all_metrics, _ports
from sokovan.entrypoints.workers.server_processes import ServerSockets, open_sockets


def opened(stack: ExitStack, tmp_path: Path) -> ServerSockets:
    return open_sockets(DataFolder(tmp_path / "data"), stack, port=0, workers=1, remote=None)


async def test_what_a_process_writes_is_published_by_itself(tmp_path: Path) -> None:
    clock, kept = SystemClock(), list[Callable[..., object]]()
    hints = InProcessHints(clock)

    async def joining(_agent: AgentId, _one: object) -> JoinAddress:
        return JoinAddress("wss://m", "sha256:1")

    with ExitStack() as stack:
        sockets = opened(stack, tmp_path)
        async with RelayServer({JoiningWanted: joining}).served(sockets.relays["manager"].dup()):
            ports = await _ports(
                sockets, hints, InProcessEventBus(clock), clock=clock, keep=lambda work, **_: kept.append(work)
            )
        assert ports.joining == JoinAddress("wss://m", "sha256:1")
        assert len(kept) == 1
        ports.nudge()
        assert await hints.wait((EVENTS_HINT,), timeout_s=60)


async def test_metrics_name_the_processes_that_answer(tmp_path: Path) -> None:
    with ExitStack() as stack:
        sockets = opened(stack, tmp_path)
        manager: socket.socket = sockets.relays["manager"]
        async with RelayServer(metrics_answer(PrometheusTelemetry().exposition)).served(manager.dup()):
            text = await _all_metrics("api-1", sockets, PrometheusTelemetry())
    assert b'sokovan_api_failures_total{process="manager"} 0.0' in text
    assert b'sokovan_api_failures_total{process="api-1"} 0.0' in text
