"""Clients that do not read, do not send or open too much harm nobody but themselves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from sokovan.proxy import proxy_server
from sokovan.proxy.connections import attempt, client_connection
from sokovan.proxy.connections.exchange import Exchange
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.routing.endpoint_state import STALL_MS
from sokovan.wire.serving.route_table import RouteLimits
from tests.unit.proxy.running_proxy import (
    KEY,
    RunningProxy,
    SeenRequest,
    call,
    code_of,
    endpoint_of,
    engines,
    get,
    json_answer,
    key_of,
    proxy_with,
    route_of,
    status_of,
    table_of,
)

pytestmark = pytest.mark.slow


@asynccontextmanager
async def deaf(proxy: RunningProxy) -> AsyncIterator[asyncio.StreamWriter]:
    """A connection whose client does not read, with small buffers."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.setblocking(False)
    await asyncio.get_running_loop().sock_connect(found, ("127.0.0.1", proxy.port))
    _, writer = await asyncio.open_connection(sock=found)
    cast("asyncio.Transport", writer.transport).pause_reading()
    try:
        yield writer
    finally:
        writer.transport.abort()


def blocked(proxy: RunningProxy) -> bool:
    """Whether no endpoint is read, because no client reads."""
    exchanges: set[Exchange] = proxy.context.exchanges
    connections = [one.attempt.connection for one in exchanges if one.attempt is not None]
    return all(one is not None and not one.transport.is_reading() for one in connections)


async def endless(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(2_000):
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


async def test_clients_that_do_not_read_are_not_taken_for_failures_of_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The time of the proxy, which a busy machine does not change by much.
    ahead_ms, real = 0, ProxyContext.now_ms
    monkeypatch.setattr(ProxyContext, "now_ms", lambda context: real(context) + ahead_ms)
    route = {"limits": RouteLimits(silence_ms=STALL_MS)}
    async with engines(endless) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine), **route))) as proxy:
        async with deaf(proxy) as one, deaf(proxy) as two:
            for writer in (one, two):
                writer.write(get("/d/chat/x"))
            await proxy.until(lambda: len(engine.requests) == 2 and blocked(proxy))
            ahead_ms += STALL_MS + 1
            proxy.server.sweep()
            assert len(proxy.context.exchanges) == 2, "they may read on"
            ahead_ms += attempt.UNREAD_MS
            await proxy.until(lambda: not proxy.context.exchanges)
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]

        assert not state.stalled
        assert not state.ejection.count, "the endpoint sent as long as it was read"
        assert proxy.context.table.routes["deployment-1"].counters[1].failed == 0
        assert proxy.context.counters.clients_gone == 2


async def test_a_client_that_uploads_slowly_is_not_taken_for_a_stall_of_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stall_ms = 50
    monkeypatch.setattr(proxy_server, "STALL_MS", stall_ms)

    async def takes_all(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await json_answer()(request, writer)

    async with engines(takes_all) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        head = b"POST /d/chat/x HTTP/1.1\r\nhost: a\r\nauthorization: Bearer %b\r\ncontent-length: %d\r\n\r\n"
        writers = [(await proxy.connect())[1] for _ in range(2)]
        for writer in writers:
            writer.write(head % (KEY, 4 << 20) + b"x" * (2 << 20))
        exchanges: set[Exchange] = proxy.context.exchanges
        await proxy.until(lambda: sum(one.attempt is not None for one in exchanges) == 2)
        since = proxy.context.now_ms()
        await proxy.until(lambda: proxy.context.now_ms() > since + stall_ms)
        proxy.server.sweep()

        assert not proxy.context.table.routes["deployment-1"].endpoints["k1.1"].stalled
        for writer in writers:
            writer.transport.abort()
        await proxy.until(lambda: not exchanges)


async def test_requests_in_a_pipeline_wait_for_a_client_that_does_not_read() -> None:
    async with (
        engines(json_answer(b"x" * 100_000)) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
        deaf(proxy) as writer,
    ):
        request = get("/d/chat/x").replace(b"Connection: close\r\n", b"")
        writer.write(request * 500)
        await proxy.until(lambda: bool(engine.requests))
        [client] = proxy.context.clients
        await proxy.until(lambda: not client.transport.is_reading() and not proxy.context.exchanges)

        assert len(engine.requests) < 500
        assert client.transport.get_write_buffer_size() < 1 << 20


async def test_refusals_in_a_pipeline_wait_for_a_client_that_does_not_read() -> None:
    async with proxy_with(table_of(route_of())) as proxy, deaf(proxy) as writer:
        request = b"GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n"
        writer.write(request * 200_000)
        await proxy.until(lambda: bool(proxy.context.clients))
        [client] = proxy.context.clients
        await proxy.until(lambda: not client.transport.is_reading())

        assert client.transport.get_write_buffer_size() < 1 << 20


async def test_a_connection_beyond_the_limit_displaces_one_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "CLIENTS_MAX", 3)

    async def hang(_request: SeenRequest, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with engines(hang) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        busy = [await proxy.connect() for _ in range(2)]
        for _, writer in busy:
            writer.write(get("/d/chat/x"))
        await proxy.until(lambda: len(engine.requests) == 2)
        idle, idle_writer = await proxy.connect()
        await proxy.until(lambda: len(proxy.context.clients) == 3)
        assert status_of(await proxy.send(get("/-/health"))) == 200
        assert await idle.read() == b"", "it had no request"
        last, last_writer = await proxy.connect()
        last_writer.write(get("/d/chat/x"))
        await proxy.until(lambda: len(engine.requests) == 3)
        answer = await proxy.send(get("/-/health"))
        assert (status_of(answer), code_of(answer)) == (503, "too-many-connections")
        for writer in (*(writer for _, writer in busy), idle_writer, last_writer):
            writer.transport.abort()
        assert await last.read() == b""


async def test_a_key_of_one_deployment_is_of_no_use_at_another() -> None:
    other = route_of(deployment_id="deployment-2", name="other", models=("other",))
    keys = (key_of(), key_of(b"ske_other", key_id="key-2", deployments=("deployment-2",)))
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)), other, keys=keys)) as proxy,
    ):
        answers = [
            await proxy.send(request) for request in (call(key=b"ske_other"), call("/d/chat/x", key=b"ske_other"))
        ]

        assert [(status_of(one), code_of(one)) for one in answers] == [
            (404, "model_not_found"),
            (404, "unknown-deployment"),
        ]
        assert not engine.requests


async def test_a_body_of_40_mb_and_a_head_of_100_kb_are_refused_and_the_proxy_serves_on() -> None:
    async with engines(json_answer()) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        body = await proxy.send(call(body=b" " * 40_000_000))
        head = await proxy.send(b"GET / HTTP/1.1\r\nhost: a\r\nx-long: " + b"y" * 100_000 + b"\r\n\r\n")

        assert (status_of(body), status_of(head)) == (413, 431)
        assert not engine.requests
        assert proxy.context.held_bytes == 0
        assert status_of(await proxy.send(call())) == 200
