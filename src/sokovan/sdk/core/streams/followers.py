"""Stream followers: resume a stream after a disconnect, without gaps or repeats."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from sokovan.sdk.core import session_calls, system_calls
from sokovan.sdk.core.calls import Call
from sokovan.sdk.core.responses import decoded
from sokovan.sdk.core.states import is_final
from sokovan.sdk.core.streams.server_events import ServerEvent
from sokovan.sdk.errors import UnexpectedAnswer, api_problem
from sokovan.wire.api.sessions import LogChunk, SessionView
from sokovan.wire.api.system import EventView, ProblemView

T_co = TypeVar("T_co", covariant=True)
PROBLEM, RESYNC = "problem", "resync"
MISSED = EventView(object="stream", id="", before=None, after="", trigger=RESYNC, at="")


class StreamFollower(Protocol[T_co]):
    """The request of a stream, and the position reached in it."""

    def call(self) -> Call[object]:
        """The request that opens or resumes the stream."""

    def accept(self, event: ServerEvent) -> T_co | None:
        """The new item of an event, if any. Raises the problem that it describes."""

    def is_over(self) -> bool:
        """Whether the stream is complete; called after the server closed it."""


class SessionFollower:
    """Follows the changes of one session."""

    def __init__(self, ref: str) -> None:
        self._ref = ref
        self._last: SessionView | None = None

    def call(self) -> Call[object]:
        """The stream of the session."""
        return session_calls.watch(self._ref)

    def accept(self, event: ServerEvent) -> SessionView | None:
        """The session, if it changed."""
        if event.is_keep_alive:
            return None
        view, last = decoded(text_of(event), SessionView), self._last
        # A reason may change without the version; older versions were seen already.
        if last is not None and (view == last or view.version < last.version):
            return None
        # A later session may take the same name, so the id is followed from here on.
        self._ref, self._last = view.id, view
        return view

    def is_over(self) -> bool:
        """Whether the session is in a final state."""
        return self._last is not None and is_final(self._last)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A chunk of the output of one kernel."""

    kernel: int
    offset: int
    content: bytes
    end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of the output to read, and whether to follow it.

    `kernel` is the index of one, or of several; None is all. `seen` is the offset to resume
    each kernel from. `size` is the number of kernels, which a follower needs to know when all
    of them have ended.
    """

    follow: bool = False
    tail: int | None = None
    kernel: int | Sequence[int] | None = None
    seen: Mapping[int, int] = field(default_factory=dict)
    size: int | None = None

    @property
    def kernels(self) -> tuple[int, ...] | None:
        """The kernels that are wanted, each once; None is all."""
        if self.kernel is None:
            return None
        return (self.kernel,) if isinstance(self.kernel, int) else tuple(dict.fromkeys(self.kernel))

    @property
    def needs_size(self) -> bool:
        """Whether the number of kernels must be requested first."""
        return self.follow and self.kernel is None and self.size is None

    def of(self, view: SessionView) -> LogOptions:
        """The same options, with the size of a session."""
        return replace(self, size=view.size)


class LogFollower:
    """Follows the output of a session's kernels, by byte offsets."""

    def __init__(self, ref: str, options: LogOptions) -> None:
        self._ref, self._options = ref, options
        self._offsets = dict(options.seen)
        self._ended: set[int] = set()

    def call(self) -> Call[object]:
        """The stream of the output, from the offsets reached so far."""
        options = self._options
        seen = ",".join(f"{kernel}:{offset}" for kernel, offset in sorted(self._offsets.items()))
        return session_calls.follow_log(
            self._ref, follow=options.follow, tail=None if seen else options.tail, kernels=options.kernels, seen=seen
        )

    def accept(self, event: ServerEvent) -> LogPiece | None:
        """The part of a chunk after the offset reached so far."""
        if event.is_keep_alive:
            return None
        chunk = decoded(text_of(event), LogChunk)
        (self._ended.add if chunk.end else self._ended.discard)(chunk.kernel)
        try:
            content = base64.b64decode(chunk.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UnexpectedAnswer(f"a log chunk cannot be decoded: {error}") from error
        # The output of a restarted kernel begins at offset 0 again.
        seen = 0 if chunk.offset == 0 else self._offsets.get(chunk.kernel, chunk.offset)
        fresh = content[max(0, seen - chunk.offset) :]
        self._offsets[chunk.kernel] = chunk.next_offset
        return LogPiece(chunk.kernel, max(seen, chunk.offset), fresh, chunk.end) if fresh or chunk.end else None

    def is_over(self) -> bool:
        """Whether every kernel has ended; a server also closes streams when it stops."""
        kernels = self._options.kernels
        expected = len(kernels) if kernels is not None else (self._options.size or 1)
        return not self._options.follow or (len(self._ended) >= expected and self._ended >= self._offsets.keys())


class EventFollower:
    """Follows all events of the server; it never ends.

    An event about the object `stream` means that events may have been missed, so that
    the caller should refresh. The first event is always one. After a disconnect the stream is
    resumed where it was; then some events may be repeated.
    """

    def __init__(self) -> None:
        self._fresh = True
        self._seen = ""

    def call(self) -> Call[object]:
        """The stream of events, from the place reached so far."""
        self._fresh = not self._seen
        return system_calls.events(seen=self._seen)

    def accept(self, event: ServerEvent) -> EventView | None:
        """The event; the first one, of any kind, shows that the stream is open."""
        self._seen = event.place or self._seen
        if self._fresh or event.name == RESYNC:
            self._fresh = False
            text_of(event)
            return MISSED
        return None if event.is_keep_alive else decoded(text_of(event), EventView)

    def is_over(self) -> bool:
        """Never."""
        return False


def text_of(event: ServerEvent) -> str:
    """The text of an event. Raises the problem that it describes."""
    if event.name == PROBLEM:
        raise api_problem(decoded(event.text, ProblemView))
    return event.text
