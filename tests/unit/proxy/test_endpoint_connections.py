"""Endpoints are dialled directly on this machine; the tests of the data listener dial others."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.proxy.endpoint_connections import Dialler, agent_of, request_of
from sokovan.wire.serving.relay_messages import RelayRequest
from sokovan.wire.serving.route_table import EndpointEntry


async def test_an_endpoint_without_an_agent_is_dialled_at_its_own_port() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await Dialler().streams(EndpointEntry("s.0.1", 1, "127.0.0.1", port, "ACTIVE"), limit=100)
        writer.write(b"hello\n")
        assert await reader.read(-1) == b"hello\n"
        writer.close()


async def test_a_proxy_on_another_machine_than_the_manager_dials_no_port_of_its_own_machine() -> None:
    entry = EndpointEntry("s.0.1", 1, "127.0.0.1", 9, "ACTIVE")
    with pytest.raises(ConnectionRefusedError, match=r"agent\.data_listen=HOST:PORT"):
        await Dialler(near=False).streams(entry, limit=100)


def test_a_request_names_kernel_and_attempt_of_the_endpoint() -> None:
    entry = EndpointEntry("s.0.12", 1, "10.0.0.2", 7650, "ACTIVE", agent="far", kernel_port=20_001, ticket="ab")
    assert request_of(entry) == RelayRequest("s.0", 12, 20_001, "ab")


def test_a_certificate_names_one_agent() -> None:
    assert agent_of({"subject": ((("commonName", "far"),),)}) == "far"
    for other in (None, {}, {"subject": ()}, {"subject": ((("commonName", "a"),), (("commonName", "b"),))}):
        assert agent_of(other) == ""
