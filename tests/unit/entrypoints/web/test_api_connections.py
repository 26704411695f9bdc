"""HTTP on real sockets, with clients that say nothing, little or too much."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect

from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.embedded.web_server import bound_socket, served
from sokovan.entrypoints.web.connection_limits import ConnectionLimits, Connections
from sokovan.testing.clock import VirtualClock
from tests.unit.api.api_harness import RecordedTelemetry

WAIT_S = 120


async def at_once() -> None:
    """Work that takes no time."""


def app_of(while_it_works: Callable[[], Awaitable[None]] = at_once) -> FastAPI:
    app = FastAPI()

    @app.post("/size")
    async def size(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    @app.post("/refused")
    async def refused() -> Response:
        return PlainTextResponse("no", status_code=403)

    @app.get("/slow")
    async def slow() -> Response:
        await while_it_works()
        return PlainTextResponse("slow")

    @app.websocket("/echo")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        while True:
            await socket.send_text(await socket.receive_text())

    return app


@asynccontextmanager
async def serving(clock: VirtualClock | None = None, **limits: Any) -> AsyncIterator[tuple[str, int, Connections]]:
    made = Connections(
        ConnectionLimits(**limits), clock or SystemClock(), telemetry=RecordedTelemetry(), log=lambda _line: None
    )

    async def while_it_works() -> None:
        if clock is not None:
            await clock.advance(1000)
            made.close_overdue()

    listener = bound_socket("127.0.0.1", 0)
    host, port = listener.getsockname()
    async with served(app_of(while_it_works), listener, made):
        yield host, port, made


async def answer(host: str, port: int, sent: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(sent)
    try:
        async with asyncio.timeout(WAIT_S):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_who_sends_no_head_or_half_of_one_is_cut_off_in_time() -> None:
    async with serving(head_s=0.2) as (host, port, _):
        assert await answer(host, port, b"") == b""
        assert await answer(host, port, b"GET /slow HTTP/1.1\r\nHost: x\r\n") == b""


@pytest.mark.slow
async def test_who_does_not_send_the_promised_body_is_cut_off_in_time() -> None:
    async with serving(body_s=0.2) as (host, port, _):
        head = b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
        assert await answer(host, port, head + b"12345") == b""


async def test_who_sends_the_rest_of_a_refused_body_is_cut_off_in_time() -> None:
    async with serving(idle_s=0.2) as (host, port, _):
        head = b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head + b"12345")
        async with asyncio.timeout(WAIT_S):
            assert (await reader.readline()).startswith(b"HTTP/1.1 403")
            writer.write(b"67890")
            with suppress(ConnectionResetError):  # it may have been cut off before the rest came
                await reader.read()
        writer.close()


async def test_a_head_without_end_is_refused() -> None:
    async with serving() as (host, port, _):
        endless = b"GET /slow HTTP/1.1\r\n" + b"X-Filler: " + b"y" * (1 << 20)
        found = await answer(host, port, endless)
        assert found == b"" or found.startswith(b"HTTP/1.1 400")


@pytest.mark.slow
async def test_a_response_may_take_longer_than_the_limits_of_requests() -> None:
    async with serving(VirtualClock()) as (host, port, made), httpx2.AsyncClient() as client:
        assert (await client.get(f"http://{host}:{port}/slow", timeout=WAIT_S)).text == "slow"
        assert (await client.post(f"http://{host}:{port}/size", content=b"abc", timeout=WAIT_S)).text == "3"
        assert made._counts == {host: 1}


async def test_a_socket_stays_open_and_is_counted_until_it_ends() -> None:
    clock = VirtualClock()
    async with serving(clock) as (host, port, made):
        async with connect(f"ws://{host}:{port}/echo", proxy=None) as client:
            await clock.advance(1000)
            made.close_overdue()
            await client.send("hello")
            assert await client.recv() == "hello"
            assert made._counts == {host: 1}
        await eventually(lambda: not made._counts)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await SystemClock().sleep(0.01)


@pytest.mark.slow
async def test_a_crowd_of_idle_connections_keeps_no_client_out() -> None:
    async with serving(total_max=50, per_address_max=40, head_s=600) as (host, port, made), AsyncExitStack() as stack:
        for _ in range(200):
            idle = stack.enter_context(socket.socket())
            idle.setblocking(False)
            await asyncio.get_running_loop().sock_connect(idle, (host, port))
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"http://{host}:{port}/slow", timeout=WAIT_S)).text == "slow"
        assert made._counts[host] <= 40
        elsewhere = httpx2.AsyncHTTPTransport(local_address="127.0.0.2")
        async with httpx2.AsyncClient(transport=elsewhere) as client:
            assert (await client.get(f"http://{host}:{port}/slow", timeout=WAIT_S)).text == "slow"
