"""Stream followers resume after a disconnect."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec
import pytest

from sokovan.sdk.core.streams.followers import MISSED, EventFollower, LogFollower, LogOptions, LogPiece, SessionFollower
from sokovan.sdk.core.streams.server_events import KEEP_ALIVE, ServerEvent
from sokovan.sdk.errors import NotFound, UnexpectedAnswer
from sokovan.wire.api.sessions import LogChunk, SessionView
from sokovan.wire.api.system import EventView, ProblemView
from tests.unit.sdk.views import ended, pending, session


def server_event(name: str, content: object) -> ServerEvent:
    """An event with an object in it."""
    return ServerEvent(name, msgspec.json.encode(content).decode())


def log(kernel: int, offset: int, content: bytes, *, end: bool = False) -> ServerEvent:
    """An event with a piece of output."""
    data = base64.b64encode(content).decode()
    chunk = LogChunk(kernel=kernel, offset=offset, next_offset=offset + len(content), data=data, end=end)
    return server_event("log", chunk)


def test_a_session_is_yielded_once_for_each_change() -> None:
    follower = SessionFollower("ddp")
    views: Sequence[SessionView] = (pending(), pending(), pending(reason="NOT_ENOUGH_FREE"), session())
    assert [follower.accept(server_event("session", view)) is not None for view in views] == [True, False, True, True]


def test_an_echo_of_an_older_state_is_passed_over() -> None:
    follower = SessionFollower("ddp")
    follower.accept(server_event("session", session()))
    assert follower.accept(server_event("session", pending())) is None


def test_a_session_is_followed_by_its_id_once_that_is_known() -> None:
    follower = SessionFollower("ddp")
    assert follower.call().path == "/api/v1/sessions/ddp/events"
    follower.accept(server_event("session", session()))
    assert follower.call().path == "/api/v1/sessions/s-1/events"


def test_a_session_is_over_in_a_final_state_only() -> None:
    follower = SessionFollower("ddp")
    assert not follower.is_over()
    follower.accept(server_event("session", session()))
    assert not follower.is_over()
    follower.accept(server_event("session", ended()))
    assert follower.is_over()


def test_a_problem_in_a_stream_is_raised() -> None:
    view = ProblemView(type="", title="", status=404, detail="gone", code="not-found")
    with pytest.raises(NotFound, match="gone"):
        SessionFollower("ddp").accept(server_event("problem", view))


def test_a_log_resumes_at_its_offset_and_never_repeats() -> None:
    follower = LogFollower("ddp", LogOptions(follow=True, tail=10))
    assert follower.call().query == {"follow": "true", "tail": "10"}
    assert follower.accept(log(0, 100, b"abc")) == LogPiece(0, 100, b"abc")
    assert follower.accept(log(1, 7, b"x")) == LogPiece(1, 7, b"x")
    again = follower.call()
    assert (again.query, again.headers) == ({"follow": "true"}, {"Last-Event-ID": "0:103,1:8"})
    assert follower.accept(log(0, 101, b"bcd")) == LogPiece(0, 103, b"d")
    assert follower.accept(log(0, 104, b"")) is None


def test_a_log_may_start_at_a_given_offset() -> None:
    assert LogFollower("ddp", LogOptions(seen={0: 5})).call().headers == {"Last-Event-ID": "0:5"}


def test_the_output_of_a_restarted_kernel_is_read_from_the_beginning() -> None:
    follower = LogFollower("ddp", LogOptions(follow=True))
    follower.accept(log(0, 0, b"first try"))
    assert follower.accept(log(0, 0, b"second")) == LogPiece(0, 0, b"second")


def test_a_followed_log_is_over_when_every_kernel_has_ended_and_not_only_those_that_spoke() -> None:
    follower = LogFollower("ddp", LogOptions(follow=True).of(session(size=3)))
    assert not follower.is_over()
    follower.accept(log(0, 0, b"a"))
    follower.accept(log(1, 0, b"b", end=True))
    assert not follower.is_over()
    assert follower.accept(log(0, 1, b"", end=True)) == LogPiece(0, 1, b"", end=True)
    assert not follower.is_over()
    follower.accept(log(2, 0, b"", end=True))
    assert follower.is_over()


def test_of_one_kernel_the_log_is_over_with_that_kernel() -> None:
    follower = LogFollower("ddp", LogOptions(follow=True, kernel=2).of(session(size=3)))
    follower.accept(log(2, 0, b"b", end=True))
    assert follower.is_over()


def test_of_several_kernels_the_log_is_over_with_all_of_them() -> None:
    follower = LogFollower("ddp", LogOptions(follow=True, kernel=[2, 0, 2]).of(session(size=3)))
    assert follower.call().query == {"follow": "true", "kernel": "2,0"}
    follower.accept(log(2, 0, b"b", end=True))
    assert not follower.is_over()
    follower.accept(log(0, 0, b"b", end=True))
    assert follower.is_over()


def test_only_following_all_kernels_needs_their_number() -> None:
    assert LogOptions(follow=True).needs_size
    assert not LogOptions(follow=True, kernel=0).needs_size
    assert not LogOptions().needs_size
    assert not LogOptions(follow=True).of(session()).needs_size


def test_a_log_that_is_not_followed_is_over_when_the_server_says_so() -> None:
    assert LogFollower("ddp", LogOptions()).is_over()


def test_a_piece_that_cannot_be_read_is_refused() -> None:
    chunk = LogChunk(kernel=0, offset=0, next_offset=1, data="%%%")
    with pytest.raises(UnexpectedAnswer):
        LogFollower("ddp", LogOptions()).accept(server_event("log", chunk))


def test_events_have_no_end_and_say_when_some_were_missed() -> None:
    follower = EventFollower()
    event = EventView(object="session", id="s-1", before=None, after="pending", trigger="submitted", at="")
    assert follower.accept(KEEP_ALIVE) == MISSED
    assert follower.accept(KEEP_ALIVE) is None
    assert follower.accept(server_event("change", event)) == event
    assert follower.accept(server_event("resync", {})) == MISSED
    assert follower.call().path == "/api/v1/events"
    assert not follower.is_over()


def test_reconnecting_may_have_missed_events() -> None:
    follower = EventFollower()
    event = EventView(object="session", id="s-1", before=None, after="pending", trigger="submitted", at="")
    follower.accept(KEEP_ALIVE)
    follower.call()
    assert follower.accept(server_event("change", event)) == MISSED
    assert follower.accept(server_event("change", event)) == event


def test_events_are_resumed_after_the_last_one_that_has_a_place() -> None:
    follower = EventFollower()
    event = EventView(object="session", id="s-1", before=None, after="pending", trigger="submitted", at="")
    assert follower.call().headers == {}
    assert follower.accept(ServerEvent(place="p.7")) == MISSED
    assert follower.call().headers == {"Last-Event-ID": "p.7"}
    change = server_event("change", event)
    assert follower.accept(ServerEvent(change.name, change.text, "p.9")) == event
    assert follower.accept(change) == event
    assert follower.call().headers == {"Last-Event-ID": "p.9"}
    assert follower.accept(server_event("resync", {})) == MISSED


def test_a_sign_of_life_brings_nothing() -> None:
    assert SessionFollower("ddp").accept(KEEP_ALIVE) is None
    assert LogFollower("ddp", LogOptions()).accept(KEEP_ALIVE) is None
