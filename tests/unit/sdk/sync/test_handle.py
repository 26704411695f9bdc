"""Handle of one session, for the sync client."""

from __future__ import annotations

from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.handle import SessionHandle
from sokovan.sdk.sync.sessions import Kernels, Sessions
from sokovan.wire.api.sessions import LogChunk
from tests.unit.sdk.fake_server import ENDPOINT, CannedResponse, FakeClock, FakeServer, ok, stream
from tests.unit.sdk.views import ended, pending, session

WHY = {"session": "s-1", "status": "pending", "verdict": "WAIT", "code": "NOT_ENOUGH_FREE", "summary": "s"}


def held(*responses: CannedResponse) -> tuple[SessionHandle, FakeServer]:
    """The handle of a pending session, at a server that gives these responses."""
    server = FakeServer(*responses)
    connection = Connection(ENDPOINT, transport=server.transport(), environment=FakeClock())
    return SessionHandle(Sessions(connection), Kernels(connection), pending()), server


def test_id_and_name_need_no_request() -> None:
    handle, server = held()
    assert (handle.id, handle.name, repr(handle)) == ("s-1", "ddp", "<SessionHandle ddp s-1 PENDING>")
    assert server.requests == []


def test_every_property_sends_a_request() -> None:
    handle, _ = held(ok(session()), ok(session()), ok(ended(exit_code=3)))
    assert handle.status == "RUNNING"
    assert handle.where == ["a1"]
    assert handle.exit_code == 3


def test_a_pending_session_has_an_explanation_and_a_running_one_none() -> None:
    handle, _ = held(ok(pending()), ok(WHY), ok(session()))
    why = handle.why()
    assert why is not None
    assert why.code == "NOT_ENOUGH_FREE"
    assert handle.why() is None


def test_it_is_waited_for_and_stopped_by_its_id() -> None:
    handle, server = held(stream(("session", session())), ok(session(status="terminating")))
    assert handle.wait("RUNNING").status == "running"
    assert handle.stop(forced=True).status == "terminating"
    assert handle.view.status == "terminating"
    assert server.lines == ["GET /api/v1/sessions/s-1/events", "DELETE /api/v1/sessions/s-1?forced=true"]


def test_a_held_session_is_released_by_its_id() -> None:
    handle, server = held(ok(session(status="pending")))
    assert handle.release(gate="data") is handle.view
    assert server.lines == ["POST /api/v1/sessions/s-1/release?gate=data"]


def test_its_output_comes_in_lines() -> None:
    chunks = [
        LogChunk(kernel=0, offset=0, next_offset=4, data="b25lCg=="),
        LogChunk(kernel=0, offset=4, next_offset=7, data="dHdv", end=True),
    ]
    handle, _ = held(stream(*(("log", chunk) for chunk in chunks)))
    assert [str(line) for line in handle.logs()] == ["one", "two"]


def test_a_followed_output_ends_with_the_session_and_not_before() -> None:
    last = LogChunk(kernel=0, offset=0, next_offset=4, data="b25lCg==", end=True)
    ending = stream(("session", session(version=6)), ("session", ended(exit_code=3, version=7)))
    handle, _ = held(stream(("log", last)), ending, ok(ended(exit_code=3)))
    assert [str(line) for line in handle.logs(follow=True)] == ["one"]
    assert handle.view.exit_code == 3
    assert handle.exit_code == 3


def test_the_followed_output_of_one_kernel_ends_with_the_kernel() -> None:
    last = LogChunk(kernel=0, offset=0, next_offset=4, data="b25lCg==", end=True)
    handle, server = held(stream(("log", last)))
    assert [str(line) for line in handle.logs(follow=True, kernel=0)] == ["one"]
    assert len(server.requests) == 1
