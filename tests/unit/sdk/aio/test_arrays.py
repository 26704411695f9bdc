"""Job arrays, for the async client."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.sdk.aio.arrays import AsyncArrays
from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.errors import StillWaiting
from sokovan.sdk.sync.arrays import Arrays
from tests.unit.sdk.fake_server import ENDPOINT, CannedResponse, FakeClock, FakeServer, ok, stream
from tests.unit.sdk.signatures import signatures
from tests.unit.sdk.views import ARRAY, ended, pending, session


def opened(*responses: CannedResponse) -> tuple[AsyncArrays, FakeServer]:
    """Arrays of a server that gives these responses."""
    server = FakeServer(*responses)
    return AsyncArrays(AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=FakeClock())), server


def test_the_names_are_those_of_the_sync_client() -> None:
    assert signatures(AsyncArrays) == signatures(Arrays)


async def test_waiting_ends_when_no_session_is_left() -> None:
    done = replace(ARRAY, status="terminated", result="success")
    live = ok({"items": [session(id="s-9")], "next": None})
    arrays, server = opened(
        ok(ARRAY), live, stream(("session", session()), ("session", ended())), ok({"items": [], "next": None}), ok(done)
    )
    assert (await arrays.wait("sweep")).result == "success"
    assert server.lines[0] == "GET /api/v1/arrays/sweep"
    assert "array=a-1" in server.lines[1]
    assert server.lines[2].startswith("GET /api/v1/sessions/s-9/events")


async def test_waiting_ends_with_the_deadline() -> None:
    live = ok({"items": [session(id="s-9")], "next": None})
    arrays, _ = opened(ok(ARRAY), live, *[stream(("session", pending()))] * 30)
    with pytest.raises(StillWaiting):
        await arrays.wait("sweep", timeout=3)


async def test_every_other_question_is_one_request() -> None:
    arrays, server = opened(ok(ARRAY), ok(ARRAY), ok({"items": [ARRAY], "next": None}), ok(ARRAY))
    await arrays.get("sweep")
    await arrays.stop("sweep")
    assert [one.name async for one in arrays.list()] == ["sweep"]
    await arrays.release("sweep", gate="data")
    assert [line.split()[0] for line in server.lines] == ["GET", "DELETE", "GET", "POST"]
    assert server.lines[-1] == "POST /api/v1/arrays/sweep/release?gate=data"
