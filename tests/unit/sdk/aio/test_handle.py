"""Handle of one session, for the async client."""

from __future__ import annotations

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.handle import AsyncSessionHandle
from sokovan.sdk.aio.sessions import AsyncKernels, AsyncSessions
from sokovan.sdk.sync.handle import SessionHandle
from sokovan.wire.api.sessions import LogChunk
from tests.unit.sdk.fake_server import ENDPOINT, CannedResponse, FakeClock, FakeServer, ok, stream
from tests.unit.sdk.signatures import signatures
from tests.unit.sdk.views import ended, pending, session


def held(*responses: CannedResponse) -> AsyncSessionHandle:
    """The handle of a pending session, at a server that gives these responses."""
    transport = FakeServer(*responses).async_transport()
    connection = AsyncConnection(ENDPOINT, transport=transport, environment=FakeClock())
    return AsyncSessionHandle(AsyncSessions(connection), AsyncKernels(connection), pending())


def test_the_names_are_those_of_the_sync_client() -> None:
    assert signatures(AsyncSessionHandle) == signatures(SessionHandle)


async def test_properties_are_those_of_the_last_response() -> None:
    handle = held(stream(("session", session())), ok(ended(exit_code=3)))
    assert (handle.status, handle.where, handle.exit_code) == ("PENDING", [], None)
    await handle.wait("RUNNING")
    assert (handle.status, handle.where) == ("RUNNING", ["a1"])
    await handle.refresh()
    assert handle.exit_code == 3
    assert repr(handle) == "<AsyncSessionHandle ddp s-1 TERMINATED>"
    assert (handle.id, handle.name, handle.labels) == ("s-1", "ddp", {})


async def test_it_has_its_labels_and_a_wait_has_a_timeout() -> None:
    handle = held(stream(("session", session(labels={"team": "vision"}))))
    await handle.wait("RUNNING", timeout=5)
    assert handle.labels == {"team": "vision"}


async def test_a_followed_output_ends_with_the_session_and_not_before() -> None:
    last = LogChunk(kernel=0, offset=0, next_offset=4, data="b25lCg==", end=True)
    handle = held(stream(("log", last)), stream(("session", session()), ("session", ended(exit_code=3, version=7))))
    assert [line.text async for line in handle.logs(follow=True)] == ["one"]
    assert handle.exit_code == 3


async def test_it_says_why_is_stopped_and_its_output_comes_in_lines() -> None:
    chunk = LogChunk(kernel=0, offset=0, next_offset=7, data="b25lCnR3bw==", end=True)
    handle = held(ok(session()), stream(("log", chunk)), ok(session()), ok(session(status="terminating")))
    assert await handle.why() is None
    assert [line.text async for line in handle.logs()] == ["one", "two"]
    assert (await handle.release()) is handle.view
    assert (await handle.stop()).status == "terminating"
