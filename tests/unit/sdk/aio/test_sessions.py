"""Sessions and their kernels, for the async client."""

from __future__ import annotations

import pytest

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.sessions import AsyncKernels, AsyncSessions
from sokovan.sdk.core.followers import LogOptions
from sokovan.sdk.errors import NeverReached, StillWaiting
from sokovan.sdk.sync.sessions import Kernels, Sessions
from sokovan.wire.api.sessions import LogChunk, SessionBody
from tests.unit.sdk.same_names import signatures
from tests.unit.sdk.toy_server import ENDPOINT, Answer, StillClock, ToyServer, ok, stream
from tests.unit.sdk.views import KERNEL, SESSION, ended, pending, session


def opened(*answers: Answer) -> tuple[AsyncSessions, AsyncKernels, ToyServer]:
    """Sessions of a server that gives these answers."""
    server = ToyServer(*answers)
    connection = AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=StillClock())
    return AsyncSessions(connection), AsyncKernels(connection), server


def test_the_names_are_those_of_the_sync_client() -> None:
    assert signatures(AsyncSessions) == signatures(Sessions)
    assert signatures(AsyncKernels) == signatures(Kernels)


async def test_a_list_is_read_page_by_page() -> None:
    sessions, _, server = opened(ok({"items": [SESSION], "next": "c1"}), ok({"items": [SESSION], "next": None}))
    assert len([view async for view in sessions.list()]) == 2
    assert server.lines[1] == "GET /api/v1/sessions?limit=100&cursor=c1"


async def test_waiting_ends_when_the_state_is_there() -> None:
    sessions, _, _ = opened(stream(("session", pending()), ("session", session()), ("session", ended())))
    assert (await sessions.wait("ddp", "RUNNING")).status == "running"


async def test_waiting_for_what_never_comes_is_told() -> None:
    sessions, _, _ = opened(stream(("session", pending(status="cancelled"))))
    with pytest.raises(NeverReached):
        await sessions.wait("ddp", "RUNNING")


async def test_waiting_ends_with_the_deadline() -> None:
    sessions, _, _ = opened(*[stream(("session", pending()))] * 30)
    with pytest.raises(StillWaiting, match="ddp is still PENDING after 3 s"):
        await sessions.wait("ddp", "RUNNING", timeout_s=3)


async def test_every_other_question_is_one_request() -> None:
    chunk = LogChunk(kernel=0, offset=0, next_offset=1, data="YQ==", end=True)
    answers = [*[ok(SESSION)] * 4, ok({"items": []}), ok([KERNEL]), ok(chunk), ok(SESSION), stream(("log", chunk))]
    sessions, kernels, server = opened(*answers)
    await sessions.submit(SessionBody(command=["x"]))
    await sessions.get("a")
    await sessions.stop("a")
    await sessions.cancel("a")
    await sessions.waiting()
    assert await kernels.list("a") == [KERNEL]
    assert await kernels.log("a") == chunk
    assert [piece.content async for piece in sessions.logs("a", LogOptions(follow=True))] == [b"a"]
    # Whoever follows all kernels looks first how many there are, and stays with that session.
    assert server.lines[-2:] == ["GET /api/v1/sessions/a", "GET /api/v1/sessions/s-1/log?follow=true"]
    assert len(server.asked) == 9
