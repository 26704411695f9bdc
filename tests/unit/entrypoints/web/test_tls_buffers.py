"""The memory of TLS connections."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol

import pytest

from sokovan.entrypoints.web.tls_buffers import TLS_BUFFER_BYTES, limit_tls_buffers


async def test_a_connection_reads_into_a_small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", 256 << 10)
    assert limit_tls_buffers() == TLS_BUFFER_BYTES
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    loop = asyncio.get_running_loop()
    protocol = SSLProtocol(loop, asyncio.Protocol(), context, loop.create_future())
    protocol._app_transport._closed = True  # it was never connected
    assert len(protocol.get_buffer(-1)) == TLS_BUFFER_BYTES


def test_buffers_that_are_smaller_already_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", 4 << 10)
    assert limit_tls_buffers() == 4 << 10
