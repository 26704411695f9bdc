"""Connections of clients: strict heads, slow clients, pipelines, upgrades."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from sokovan.proxy.connections import client_connection
from sokovan.proxy.connections.upstream_connection import KEEP_ALIVE
from sokovan.proxy.http.heads import HEAD_BYTES_MAX
from tests.unit.proxy.http.test_heads import SMUGGLING
from tests.unit.proxy.running_proxy import (
    KEY,
    LIMIT_S,
    SeenRequest,
    call,
    endpoint_of,
    engines,
    get,
    json_answer,
    proxy_with,
    route_of,
    status_of,
    stream_answer,
    table_of,
)

AUTHORIZED = b"Authorization: Bearer " + KEY + b"\r\n"
HANDSHAKE = (
    b"GET /d/chat/socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + AUTHORIZED + b"\r\n"
)


async def upgrade(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
    """Switch protocols, then echo."""
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
    while data := await request.reader.read(1000):
        writer.write(data)


async def test_nothing_of_the_smuggling_corpus_reaches_an_endpoint() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        for head in SMUGGLING:
            hidden = head.replace(b"/v1/x", b"/d/chat/x") + AUTHORIZED + b"\r\n0\r\n\r\nGET /d/chat/hidden HTTP/1.1\r\n"
            answer = await proxy.send(hidden + b"Host: a\r\n" + AUTHORIZED + b"\r\n")
            assert status_of(answer) in {400, 417, 501}, head
            assert answer.count(b"HTTP/1.1 ") == 1, "the connection ends with the refusal"
        assert not engine.requests


@pytest.mark.parametrize(
    "chunks", [b"x\r\n", b"5\r\nhelloXX0\r\n\r\n", b"5\nhello\n0\n\n", b"-5\r\n", b"0\r\nbad trailer\r\n\r\n"]
)
async def test_a_malformed_chunk_ends_the_connection(chunks: bytes) -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        head = b"POST /d/chat/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + AUTHORIZED + b"\r\n"
        answer = await proxy.send(head + chunks + b"GET /d/chat/hidden HTTP/1.1\r\nHost: a\r\n\r\n")

        assert status_of(answer) == 400
        assert not engine.requests


async def test_a_head_beyond_the_limit_is_refused_with_431() -> None:
    async with proxy_with(table_of()) as proxy:
        whole = await proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n")
        endless = await proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100_000)

        assert (status_of(whole), status_of(endless)) == (431, 431)


async def test_a_head_that_comes_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "HEAD_MS", 50)
    async with proxy_with(table_of()) as proxy:
        answer = await proxy.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow")

        assert status_of(answer) == 408


async def test_a_body_that_comes_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "BODY_MS", 50)
    async with proxy_with(table_of()) as proxy:
        reader, writer = await proxy.connect()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.transport.abort()


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "IDLE_MS", 50)
    async with proxy_with(table_of()) as proxy:
        assert await proxy.send(b"") == b""


async def test_a_client_that_half_closes_within_its_request_is_taken_to_have_left() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            assert await reader.read() == b""
        await proxy.until(lambda: not proxy.context.clients)
        writer.transport.abort()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/d/chat/anything"])
async def test_a_client_that_half_closes_after_its_request_gets_its_response(path: str) -> None:
    noticed = asyncio.Event()

    async def late(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await noticed.wait()
        await json_answer(b'{"late":1}')(request, writer)

    async with engines(late) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        reader, writer = await proxy.connect()
        writer.write(call(path))
        writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n", "it has noticed"
            noticed.set()
            answer = await reader.read()
        writer.transport.abort()

        assert status_of(answer) == 200
        assert answer.endswith(b'{"late":1}')
        assert proxy.context.counters.clients_gone == 0


async def test_a_stream_goes_on_for_a_client_that_half_closes_during_it() -> None:
    begun = asyncio.Event()

    async def slow(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"9\r\ndata: 1\n\n\r\n")
        await begun.wait()
        writer.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    async with engines(slow) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        reader, writer = await proxy.connect()
        writer.write(call())
        async with asyncio.timeout(LIMIT_S):
            head = await reader.readuntil(b"data: 1\n\n\r\n")
            writer.write_eof()
            [connection] = proxy.context.clients
            await proxy.until(lambda: connection._half_closed)
            begun.set()
            rest = await reader.read()
        writer.transport.abort()

        assert status_of(head) == 200
        # A zero before a size changes nothing; it shows whether the client is still there.
        assert rest == b"09\r\ndata: 2\n\n\r\n0\r\n\r\n"


async def test_requests_in_a_pipeline_are_all_answered_though_the_client_half_closes() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        one = b"GET /d/chat/%d HTTP/1.1\r\nHost: a\r\n" + AUTHORIZED + b"\r\n"
        writer.write(one % 1 + one % 2 + one % 3 + b"GET /half HTTP/1.1\r\n")
        writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            answers = await reader.read()
        writer.transport.abort()

        assert answers.count(b"HTTP/1.1 200 OK") == 3
        assert [request.line for request in engine.requests] == [b"GET /%d HTTP/1.1" % number for number in (1, 2, 3)]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_closed_is_found_at_once(stream: bool) -> None:
    async def never(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        if stream:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"1\r\nx\r\n")
        await request.reader.read()

    async with engines(never) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        reader, writer = await proxy.connect()
        writer.write(call())
        await proxy.until(lambda: len(engine.requests) == 1)
        if stream:
            await reader.readuntil(b"x\r\n")
        writer.close()  # as a program that ends does: the same bytes as a half-closed connection
        await proxy.until(lambda: not proxy.context.exchanges)

        assert proxy.context.counters.clients_gone == 1
        await proxy.until(engine.closed.is_set)


async def test_an_old_client_that_half_closes_gets_no_informational_response() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        writer.write(b"GET /d/chat/x HTTP/1.0\r\nHost: a\r\n" + AUTHORIZED + b"\r\n")
        writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            assert status_of(await reader.read()) == 200
        writer.transport.abort()


async def test_requests_in_a_pipeline_are_answered_in_their_order() -> None:
    async def echo(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await json_answer(json.dumps(request.line.decode()).encode())(request, writer)

    async with (
        engines(echo) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        lines = [b"GET /d/chat/%d HTTP/1.1\r\nHost: a\r\n" % number + AUTHORIZED + b"\r\n" for number in range(20)]
        answer = await proxy.send(b"".join(lines) + get("/d/chat/last"))

        paths = [part.split()[0] for part in answer.split(b'"GET /')[1:]]
        assert paths == [b"%d" % number for number in range(20)] + [b"last"]


async def test_a_connection_serves_many_requests_and_so_does_that_of_the_endpoint() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, probe=endpoint_of(engine).probe)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        for _ in range(10):
            writer.write(call().replace(b"Connection: close\r\n", b""))
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"connection: close" not in head
            await reader.readexactly(len(b'{"ok":true}'))
        writer.transport.abort()

        assert len(engine.requests) == 10
        assert engine.connections - engine.probes == 1


async def test_a_refused_request_keeps_the_connection() -> None:
    async with proxy_with(table_of()) as proxy:
        body = b'{"model":"none"}'
        first = call(body=body).replace(b"Connection: close\r\n", b"")
        answer = await proxy.send(first + call(body=body))

        assert answer.count(b"HTTP/1.1 404") == 2


async def test_a_client_that_expects_it_is_asked_to_continue() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        answer = await proxy.send(call(more="Expect: 100-continue\r\n"))

        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
        assert engine.requests[0].field(b"expect") is None


async def test_an_old_client_gets_a_response_that_ends_with_the_connection() -> None:
    async def chunked(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")

    async with (
        engines(chunked) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        answer = await proxy.send(b"GET /d/chat/x HTTP/1.0\r\n" + AUTHORIZED + b"\r\n")

        assert answer.endswith(b"\r\n\r\nabc")
        assert b"chunked" not in answer


async def test_a_response_to_head_has_no_body() -> None:
    async def headless(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")

    async with (
        engines(headless) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        answer = await proxy.send(b"HEAD /d/chat/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + AUTHORIZED + b"\r\n")

        assert answer.endswith(b"\r\n\r\n")
        assert status_of(answer) == 200


async def test_a_websocket_is_spliced_both_ways_and_closed_when_its_key_is_revoked() -> None:
    async with (
        engines(upgrade) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        writer.write(HANDSHAKE)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await reader.readexactly(5) == b"hello"
        writer.write(b"\x81\x00\r\n\r\nanything")
        assert await reader.readexactly(14) == b"\x81\x00\r\n\r\nanything"
        proxy.server.apply(table_of(version=2, base=1, keys=(), keys_removed=("key-1",)))

        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.transport.abort()


async def test_a_peer_of_a_websocket_that_is_gone_is_found_out_on_both_sides() -> None:
    async with (
        engines(upgrade) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        writer.write(HANDSHAKE)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        [client], [exchange] = proxy.context.clients, proxy.context.exchanges
        for transport in (client.transport, exchange.attempt.connection.transport):
            found = transport.get_extra_info("socket")
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            probes = [found.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in KEEP_ALIVE]
            assert probes == list(KEEP_ALIVE.values())
        writer.transport.abort()


async def test_an_endpoint_that_refuses_an_upgrade_answers_as_usual() -> None:
    async with (
        engines(json_answer(b"{}", b"403 No")) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        writer.write(HANDSHAKE)

        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
        writer.transport.abort()


async def test_after_a_stream_that_breaks_off_the_connection_takes_the_next_request() -> None:
    async with (
        engines(stream_answer([b"data: 1\n\n"], breaks_off=True)) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        stream = call(body=b'{"model":"chat","stream":true}').replace(b"Connection: close\r\n", b"")
        writer.write(stream)
        first = await reader.readuntil(b"0\r\n\r\n")
        assert b"replica-failed" in first
        writer.write(get("/v1/models"))
        assert status_of(await reader.read()) == 200
        writer.transport.abort()
