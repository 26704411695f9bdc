"""Responses of endpoints are parsed strictly: nothing of one reaches another client."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.proxy.running_proxy import (
    SeenRequest,
    body_of,
    call,
    endpoint_of,
    engines,
    get,
    proxy_with,
    route_of,
    status_of,
    table_of,
)


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 40_000,
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 17 + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    ],
)
async def test_a_malformed_response_is_a_bad_gateway(response: bytes) -> None:
    async def answer(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(response)

    async with (
        engines(answer) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        found = await proxy.send(get("/d/chat/x"))

        assert status_of(found) == 502
        assert b"SSH" not in found, "another program on the port is not heard"


async def test_bytes_after_a_response_are_never_taken_for_the_next_one() -> None:
    async def two(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")

    async with (
        engines(two) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        answers = [body_of(await proxy.send(call())) for _ in range(3)]

        assert answers == [b"{}"] * 3
        assert engine.connections - engine.probes == 3, "such a connection is not used again"


async def test_informational_responses_without_end_are_given_up() -> None:
    async def endless(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()

    async with (
        engines(endless) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        assert status_of(await proxy.send(get("/d/chat/x"))) == 502


async def test_informational_responses_are_skipped() -> None:
    async def informed(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    async with (
        engines(informed) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        assert body_of(await proxy.send(call())) == b"{}"


async def test_a_response_may_end_with_its_connection() -> None:
    async def until_close(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        writer.write_eof()

    async with (
        engines(until_close) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        assert body_of(await proxy.send(call())) == b"all of it"


async def test_a_response_in_single_bytes_is_whole() -> None:
    async def slowly(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n":
            writer.write(bytes((byte,)))
            await writer.drain()

    async with (
        engines(slowly) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        assert body_of(await proxy.send(call())) == b"abc"


async def test_a_body_that_is_malformed_from_its_begin_is_not_taken_for_whole() -> None:
    async def malformed(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")

    async with (
        engines(malformed) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        found = await proxy.send(call(body=b'{"model":"chat","stream":true}'))

        assert status_of(found) == 200
        assert b"replica-failed" in body_of(found)
