"""Streams, taken up again where they broke off: nothing twice, nothing lost."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from sokovan.sdk.core import session_calls, system_calls
from sokovan.sdk.core.calls import Call
from sokovan.sdk.core.responses import decoded
from sokovan.sdk.core.server_events import ServerEvent
from sokovan.sdk.core.states import is_final
from sokovan.sdk.errors import UnexpectedAnswer, api_problem
from sokovan.wire.api.sessions import LogChunk, SessionView
from sokovan.wire.api.system import EventView, ProblemView

T_co = TypeVar("T_co", covariant=True)
PROBLEM, RESYNC = "problem", "resync"
MISSED = EventView(object="stream", id="", before=None, after="", trigger=RESYNC, at="")


class StreamFollower(Protocol[T_co]):
    """What is asked for, and what has been seen of it."""

    def call(self) -> Call[object]:
        """The request that opens the stream, or opens it again."""

    def accept(self, event: ServerEvent) -> T_co | None:
        """What an event or pulse brings that was not seen before. Raises what it tells of."""

    def is_over(self) -> bool:
        """Asked when the server ended the stream by itself: whether that was all."""


class SessionFollower:
    """A session after each of its changes."""

    def __init__(self, ref: str) -> None:
        self._ref = ref
        self._last: SessionView | None = None

    def call(self) -> Call[object]:
        """The stream of the session."""
        return session_calls.watch(self._ref)

    def accept(self, event: ServerEvent) -> SessionView | None:
        """The session, if it changed."""
        if event.is_pulse:
            return None
        view, last = decoded(_text(event), SessionView), self._last
        # A reason may change while the version stays; what is older than the last is an echo.
        if last is not None and (view == last or view.version < last.version):
            return None
        # A name may pass on to a later session; the one that was seen first is the one that is followed.
        self._ref, self._last = view.id, view
        return view

    def is_over(self) -> bool:
        """When the session is in a final state."""
        return self._last is not None and is_final(self._last)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A piece of the output of one kernel."""

    kernel: int
    offset: int
    content: bytes
    end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of the output, and whether to go on.

    `seen` is how far each kernel was read before; it goes on there. `size` is how many
    kernels the session has, without which a follower cannot tell the end of all from the
    end of those that spoke.
    """

    follow: bool = False
    tail: int | None = None
    kernel: int | None = None
    seen: Mapping[int, int] = field(default_factory=dict)
    size: int | None = None

    @property
    def needs_size(self) -> bool:
        """Whether somebody should look first how many kernels there are."""
        return self.follow and self.kernel is None and self.size is None

    def of(self, view: SessionView) -> LogOptions:
        """The same wish, for a session that was looked at."""
        return replace(self, size=view.size)


class LogFollower:
    """The output of a session's kernels, by byte offsets."""

    def __init__(self, ref: str, wish: LogOptions) -> None:
        self._ref, self._wish = ref, wish
        self._places = dict(wish.seen)
        self._ended: set[int] = set()

    def call(self) -> Call[object]:
        """The stream of the output; once something was seen, from there on."""
        wish, seen = self._wish, ",".join(f"{kernel}:{place}" for kernel, place in sorted(self._places.items()))
        return session_calls.follow_log(
            self._ref, follow=wish.follow, tail=None if seen else wish.tail, kernel=wish.kernel, seen=seen
        )

    def accept(self, event: ServerEvent) -> LogPiece | None:
        """What a chunk holds beyond what was seen."""
        if event.is_pulse:
            return None
        chunk = decoded(_text(event), LogChunk)
        (self._ended.add if chunk.end else self._ended.discard)(chunk.kernel)
        try:
            content = base64.b64decode(chunk.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UnexpectedAnswer(f"a piece of a log cannot be read: {error}") from error
        # A kernel that was started anew speaks from the beginning again.
        seen = 0 if chunk.offset == 0 else self._places.get(chunk.kernel, chunk.offset)
        fresh = content[max(0, seen - chunk.offset) :]
        self._places[chunk.kernel] = chunk.next_offset
        return LogPiece(chunk.kernel, max(seen, chunk.offset), fresh, chunk.end) if fresh or chunk.end else None

    def is_over(self) -> bool:
        """When every kernel has ended; a server that stops ends streams too."""
        expected = 1 if self._wish.kernel is not None else (self._wish.size or 1)
        return not self._wish.follow or (len(self._ended) >= expected and self._ended >= self._places.keys())


class EventFollower:
    """Everything that happens; it has no end.

    An event about the object `stream` says that others may have been missed: look again.
    The first is one: what happened before is not told.
    """

    def __init__(self) -> None:
        self._fresh = True

    def call(self) -> Call[object]:
        """The stream of events."""
        self._fresh = True
        return system_calls.events()

    def accept(self, event: ServerEvent) -> EventView | None:
        """The event; whatever comes first shows that we are connected."""
        if self._fresh or event.name == RESYNC:
            self._fresh = False
            _text(event)
            return MISSED
        return None if event.is_pulse else decoded(_text(event), EventView)

    def is_over(self) -> bool:
        """Never."""
        return False


def _text(event: ServerEvent) -> str:
    if event.name == PROBLEM:
        raise api_problem(decoded(event.text, ProblemView))
    return event.text
