"""Sessions and their kernels, for the async client."""

from __future__ import annotations

import pytest

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.sessions import AsyncKernels, AsyncSessions
from sokovan.sdk.core.streams.followers import LogOptions
from sokovan.sdk.errors import NeverReached, StillWaiting
from sokovan.sdk.sync.sessions import Kernels, Sessions
from sokovan.wire.api.batches import BatchItemView, BatchView, StopItemView, StopView
from sokovan.wire.api.sessions import LogChunk, SessionBody
from tests.unit.sdk.fake_server import ENDPOINT, CannedResponse, FakeClock, FakeServer, ok, stream
from tests.unit.sdk.signatures import signatures
from tests.unit.sdk.views import KERNEL, SESSION, ended, pending, session


def opened(*responses: CannedResponse) -> tuple[AsyncSessions, AsyncKernels, FakeServer]:
    """Sessions of a server that gives these responses."""
    server = FakeServer(*responses)
    connection = AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=FakeClock())
    return AsyncSessions(connection), AsyncKernels(connection), server


def test_the_names_are_those_of_the_sync_client() -> None:
    assert signatures(AsyncSessions) == signatures(Sessions)
    assert signatures(AsyncKernels) == signatures(Kernels)


async def test_a_list_is_read_page_by_page() -> None:
    sessions, _, server = opened(ok({"items": [SESSION], "next": "c1"}), ok({"items": [SESSION], "next": None}))
    assert len([view async for view in sessions.list()]) == 2
    assert server.lines[1] == "GET /api/v1/sessions?limit=100&cursor=c1"


async def test_a_list_is_filtered_by_the_names_of_its_columns() -> None:
    sessions, _, server = opened(ok({"items": [], "next": None}))
    assert [view async for view in sessions.list(label="team=vision", user="ada", limit=5)] == []
    assert server.lines == ["GET /api/v1/sessions?label=team%3Dvision&user=ada&limit=5"]


async def test_rows_and_counts_take_the_same_filters() -> None:
    counted = {"by": "queue", "items": [{"value": "default", "count": 2}]}
    sessions, _, server = opened(ok({"items": [], "next": None}), ok(counted))
    assert [row async for row in sessions.rows(user="ada")] == []
    found = await sessions.counts("queue", status=["running", "pending"])
    assert [(one.value, one.count) for one in found.items] == [("default", 2)]
    assert server.lines == [
        "GET /api/v1/sessions/rows?user=ada&limit=100",
        "GET /api/v1/sessions/counts?status=running%2Cpending&by=queue",
    ]


async def test_waiting_ends_when_the_state_is_there() -> None:
    sessions, _, _ = opened(stream(("session", pending()), ("session", session()), ("session", ended())))
    assert (await sessions.wait("ddp", "RUNNING")).status == "running"


async def test_waiting_for_a_state_that_is_never_reached_raises() -> None:
    sessions, _, _ = opened(stream(("session", pending(status="cancelled"))))
    with pytest.raises(NeverReached):
        await sessions.wait("ddp", "RUNNING")


async def test_waiting_ends_with_the_deadline() -> None:
    sessions, _, _ = opened(*[stream(("session", pending()))] * 30)
    with pytest.raises(StillWaiting, match="ddp is still PENDING after 3 s"):
        await sessions.wait("ddp", "RUNNING", timeout=3)


async def test_every_other_question_is_one_request() -> None:
    chunk = LogChunk(kernel=0, offset=0, next_offset=1, data="YQ==", end=True)
    responses = [
        *[ok(SESSION)] * 4,
        ok({"items": []}),
        ok({"items": [KERNEL], "next": None}),
        ok(chunk),
        ok(SESSION),
        stream(("log", chunk)),
    ]
    sessions, kernels, server = opened(*responses)
    await sessions.submit(SessionBody(command=["x"]))
    await sessions.get("a")
    await sessions.stop("a")
    await sessions.cancel("a")
    await sessions.waiting()
    assert await kernels.list("a") == [KERNEL]
    assert await kernels.log("a") == chunk
    assert [piece.content async for piece in sessions.logs("a", LogOptions(follow=True))] == [b"a"]
    # Following all kernels requests their number first, and follows the session by its id.
    assert server.lines[-2:] == ["GET /api/v1/sessions/a", "GET /api/v1/sessions/s-1/log?follow=true"]
    assert len(server.requests) == 9


async def test_many_sessions_are_sent_in_few_requests_with_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.sdk.aio.sessions.TOGETHER", 2)
    two = BatchView(items=[BatchItemView(session="a"), BatchItemView(session="b")], accepted=2, refused=0)
    sessions, _, server = opened(ok(two), ok(BatchView(items=[BatchItemView(session="c")], accepted=1, refused=0)))
    items = await sessions.submit_many((SessionBody(command=[name]) for name in "abc"), key="k")
    assert [item.session for item in items] == ["a", "b", "c"]
    assert server.lines == ["POST /api/v1/sessions:batch"] * 2
    first, last = server.requests
    assert first.content == b'{"command":["a"]}\n{"command":["b"]}'
    assert (first.headers["content-type"], first.headers["idempotency-key"]) == ("application/x-ndjson", "k-0")
    assert last.headers["idempotency-key"] == "k-2"


async def test_many_sessions_are_stopped_in_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.sdk.aio.sessions.TOGETHER", 2)
    two = StopView(items=[StopItemView(id="a"), StopItemView(id="b")], accepted=2, refused=0)
    sessions, _, server = opened(ok(two), ok(StopView(items=[StopItemView(id="c")], accepted=1, refused=0)))
    assert [item.id for item in await sessions.stop_many(iter("abc"), forced=True)] == ["a", "b", "c"]
    assert server.lines == ["POST /api/v1/sessions:stop?forced=true"] * 2
    assert server.requests[0].content == b'{"session":"a"}\n{"session":"b"}'
