"""The data listener of a server's own agent has a certificate that gateways accept."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from sokovan.adapters.local.certificates import CertificateAuthority
from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.link.data_listener import DataListener
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.joining.own_data_listener import own_data_listener
from sokovan.proxy.endpoint_connections import Dialler
from sokovan.testing.clock import VirtualClock, until
from sokovan.wire.serving.route_table import EndpointEntry

pytestmark = pytest.mark.slow


async def test_a_gateway_trusts_it_as_that_of_the_agent_and_it_is_renewed(tmp_path: Path) -> None:
    clock = VirtualClock(now_ms=SystemClock().now_ms())  # TLS has the time of the machine
    made = own_data_listener("127.0.0.1:0", agent="near", folder=tmp_path / "tls", own=tmp_path / "own", clock=clock)
    host, _, port = made.socket.address.rpartition(":")
    authority = CertificateAuthority(tmp_path / "tls", clock).certificate
    listener = DataListener(made.socket, lambda *_kernel: contextlib.nullcontext(), lambda _line: None)  # type: ignore[arg-type]  # it connects to nothing
    running = asyncio.create_task(listener.run())
    first = (tmp_path / "own" / "own-agent.pem").read_bytes()
    renewal = asyncio.create_task(made.renew())
    try:
        for agent, refusal in (("near", "the agent refuses"), ("other", "is not agent other")):
            entry = EndpointEntry("s.0.1", 1, host, int(port), "ACTIVE", agent=agent, kernel_port=1, ticket="ab")
            with pytest.raises(ConnectionRefusedError, match=refusal):
                await Dialler(lambda: authority).streams(entry, limit=100)
        await clock.advance(86_400 / 3 + 1)

        async def is_renewed() -> bool:
            return (tmp_path / "own" / "own-agent.pem").read_bytes() != first

        await until(is_renewed, elapse=clock.advance)
    finally:
        for task in (running, renewal):
            task.cancel()
        await asyncio.gather(running, renewal, return_exceptions=True)


def test_an_address_of_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        own_data_listener("7650", agent="near", folder=tmp_path, own=tmp_path, clock=VirtualClock())
