"""A socket on the requested port, or on the next free one; an app served on it."""

from __future__ import annotations

import logging
import socket
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.responses import Response
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.embedded.web_server import NoFreePort, bound_socket, served
from sokovan.entrypoints.web.connection_limits import ConnectionLimits, Connections
from tests.unit.api.api_harness import RecordedTelemetry


def unlimited() -> Connections:
    return Connections(ConnectionLimits(), SystemClock(), telemetry=RecordedTelemetry(), log=lambda _line: None)


def test_a_taken_port_gives_the_next_free_one() -> None:
    with bound_socket("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        with bound_socket("127.0.0.1", taken) as second:
            assert second.getsockname()[1] > taken


def test_an_address_of_another_machine_is_an_error_with_a_hint() -> None:
    with pytest.raises(NoFreePort) as caught:
        bound_socket("203.0.113.1", 7646)
    assert "--port" in str(caught.value)


@pytest.mark.slow
async def test_small_answers_are_sent_at_once() -> None:
    """Without this option each of them waits for the client's delayed acknowledgement."""
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        connection = send.__self__.transport.get_extra_info("socket")
        seen.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        await Response("ok")(scope, receive, send)

    listener = bound_socket("127.0.0.1", 0)
    async with served(app, listener, unlimited()), httpx2.AsyncClient(trust_env=False) as client:  # type: ignore[arg-type]  # any ASGI app will do
        await client.get(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    assert seen == [1]


@pytest.mark.slow
async def test_an_app_answers_while_it_is_served_and_not_afterwards() -> None:
    app = FastAPI()
    app.get("/livez")(lambda: {"status": "ok"})
    listener = bound_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/livez"
    async with httpx2.AsyncClient(trust_env=False) as client:
        async with served(app, listener, unlimited()):
            assert (await client.get(url)).json() == {"status": "ok"}
        with pytest.raises(httpx2.ConnectError):
            await client.get(url)
    assert listener.fileno() == -1 or listener.family == socket.AF_INET


async def test_a_socket_that_is_refused_with_an_answer_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await Response("no key", status_code=401)(scope, receive, send)

    app = FastAPI()
    app.add_middleware(lambda _app: refusing)
    listener = bound_socket("127.0.0.1", 0)
    with caplog.at_level(logging.WARNING):
        async with served(app, listener, unlimited()):
            with pytest.raises(InvalidStatus) as caught:
                await connect(f"ws://127.0.0.1:{listener.getsockname()[1]}/exec", proxy=None)
    assert caught.value.response.status_code == 401
    assert caught.value.response.body == b"no key"
    assert caplog.messages == []
