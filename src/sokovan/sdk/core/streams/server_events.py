"""Parses server-sent events incrementally.

The parser of httpx2 drops comments, which are the keep-alives of an idle stream;
followers need them to check deadlines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sokovan.sdk.errors import UnexpectedAnswer

# The columns of a fleet have about 60 bytes for each device.
EVENT_MAX = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; keep-alives are events without a name.

    `place` is the id of the event, from which the stream can be resumed; empty without one.
    """

    name: str = ""
    text: str = ""
    place: str = ""

    @property
    def is_keep_alive(self) -> bool:
        """Whether it is only a keep-alive."""
        return not self.name


KEEP_ALIVE = ServerEvent()


class EventReader:
    """Assembles chunks of text into events."""

    def __init__(self) -> None:
        self._rest = ""
        self._name = self._place = ""
        self._lines: list[str] = []
        self._size = 0

    def feed(self, text: str) -> Iterator[ServerEvent]:
        """The events that end in this chunk, or a keep-alive if none does."""
        lines = (self._rest + text).replace("\r\n", "\n").split("\n")
        self._rest = lines.pop()
        self._check_size(len(self._rest))
        is_idle = True
        for line in lines:
            event = self._line(line)
            if event is not None:
                is_idle = False
                yield event
        if is_idle:
            yield KEEP_ALIVE

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._event()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "id":
            self._place = value
        elif name == "data":
            self._lines.append(value)
            self._size += len(value)
            self._check_size(0)
        return None

    def _event(self) -> ServerEvent | None:
        place, event = self._place, None
        if self._lines:
            event = ServerEvent(self._name or "message", "\n".join(self._lines), place)
        elif place:
            event = ServerEvent(place=place)
        self._name, self._place, self._lines, self._size = "", "", [], 0
        return event

    def _check_size(self, more: int) -> None:
        if self._size + more > EVENT_MAX:
            raise UnexpectedAnswer(f"a server-sent event is larger than {EVENT_MAX} characters")
