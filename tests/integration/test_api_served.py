"""The API behind a real server: sockets, streams and clients that hang up."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.integration.served_api import ServedApi
from tests.unit.api.api_harness import WAIT_S, ApiHarness, add_key, member, quick

NORTH, SOUTH = member("north"), member("south")


@pytest.fixture(scope="module")
def served() -> Iterator[ServedApi]:
    """An API at a real address, with one session that runs."""
    with ServedApi(streams=quick(idle_s=0.05)) as made:
        made.run(lambda api: api.run("shell", NORTH))
        yield made


def headers(served: ServedApi, user: str = NORTH) -> dict[str, str]:
    assert served.api is not None
    return served.api.headers(user)


def streams(served: ServedApi) -> int:
    assert served.api is not None
    return len(served.api.app.state.context.streams.hub._holders)


def until(served: ServedApi, holds: Any) -> None:
    """Wait for something to come true over there."""

    async def work(_api: ApiHarness) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await _api.cluster.elapse(0.01)

    served.run(work)


def test_a_command_runs_over_a_real_socket(served: ServedApi) -> None:
    address = served.url.replace("http", "ws") + "/api/v1/sessions/shell/kernels/0/exec"
    with connect(address, additional_headers=headers(served), open_timeout=WAIT_S) as socket:
        socket.send(json.dumps({"command": ["cat"]}))
        assert socket.recv(timeout=WAIT_S) == b"cat\n"
        socket.send(b"hello")
        assert socket.recv(timeout=WAIT_S) == b"HELLO"
        socket.send(b"")
        last = socket.recv(timeout=WAIT_S)
        assert json.loads(last) == {"exit_code": 7}


@pytest.mark.parametrize(
    ("user", "extra", "answer"),
    [
        (None, {}, (401, "unauthenticated")),
        (SOUTH, {}, (404, "not-found")),
        (NORTH, {"Origin": "http://evil.example"}, (403, "foreign-origin")),
    ],
)
def test_a_socket_that_is_refused_says_why(
    served: ServedApi, user: str | None, extra: dict[str, str], answer: tuple[int, str]
) -> None:
    address = served.url.replace("http", "ws") + "/api/v1/sessions/shell/kernels/0/exec"
    sent = {**(headers(served, user) if user else {}), **extra}
    with pytest.raises(InvalidStatus) as refused, connect(address, additional_headers=sent):
        pass
    response = refused.value.response
    assert (response.status_code, json.loads(response.body or b"")["code"]) == answer


def test_a_client_that_leaves_ends_its_command(served: ServedApi) -> None:
    assert served.api is not None
    agents = served.api.agents
    address = served.url.replace("http", "ws") + "/api/v1/sessions/shell/kernels/0/exec"
    with connect(address, additional_headers=headers(served), open_timeout=WAIT_S) as socket:
        socket.send(json.dumps({"command": ["sleep"]}))
        socket.recv(timeout=WAIT_S)
    until(served, lambda: agents.executions[-1].ended)


def test_a_client_that_hangs_up_ends_its_stream_at_once(served: ServedApi) -> None:
    until(served, lambda: streams(served) == 0)
    with httpx2.stream("GET", f"{served.url}/api/v1/events", headers=headers(served), timeout=WAIT_S) as stream:
        parts = stream.iter_text()
        assert next(parts).startswith(": connected")
        assert streams(served) == 1
    until(served, lambda: streams(served) == 0)


def test_output_is_followed_over_the_wire(served: ServedApi) -> None:
    assert served.api is not None
    agents = served.api.agents
    served.run(lambda api: api.run("talker", NORTH))
    address = f"{served.url}/api/v1/sessions/talker/log?follow=true"
    said = b""
    with httpx2.stream("GET", address, headers=headers(served), timeout=WAIT_S) as stream:
        agents.says("talker.0", b"one ")
        agents.says("talker.0", b"two", ends=True)
        for line in stream.iter_lines():
            if line.startswith("data: "):
                said += base64.b64decode(json.loads(line.removeprefix("data: "))["data"])
    assert said == b"one two"


def test_a_revoked_key_loses_its_stream_and_its_command(served: ServedApi) -> None:
    assert served.api is not None
    key = served.run(lambda api: add_key(api, NORTH, named="doomed"))
    address = f"{served.url}/api/v1"
    sent = headers(served, "doomed")
    socket_address = address.replace("http", "ws") + "/sessions/shell/kernels/0/exec"
    with (
        httpx2.stream("GET", f"{address}/events", headers=sent, timeout=WAIT_S) as stream,
        connect(socket_address, additional_headers=sent, open_timeout=WAIT_S) as socket,
    ):
        socket.send(json.dumps({"command": ["cat"]}))
        socket.recv(timeout=WAIT_S)
        assert httpx2.delete(f"{address}/keys/{key}", headers=headers(served), timeout=WAIT_S).status_code == 204
        assert "unauthenticated" in "".join(stream.iter_text())
        assert json.loads(socket.recv(timeout=WAIT_S))["code"] == "unauthenticated"


def test_clients_that_hang_up_all_the_time_leave_a_server_that_works(served: ServedApi) -> None:
    for _ in range(30):
        address = f"{served.url}/api/v1/sessions/shell/events"
        with httpx2.stream("GET", address, headers=headers(served), timeout=WAIT_S) as stream:
            next(stream.iter_raw())
    assert httpx2.get(f"{served.url}/api/v1/sessions", headers=headers(served), timeout=WAIT_S).status_code == 200
