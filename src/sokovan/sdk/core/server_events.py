"""Server-sent events, read as their text arrives.

httpx2 has a reader too, but that one swallows the comments by which a silent stream
shows that it is alive; whoever waits for a deadline has to see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sokovan.sdk.errors import UnexpectedAnswer

EVENT_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; a comment, or nothing but time, is an event without a name."""

    name: str = ""
    text: str = ""

    @property
    def is_pulse(self) -> bool:
        """Whether it only shows that the stream is alive."""
        return not self.name


PULSE = ServerEvent()


class EventReader:
    """Turns pieces of text into events."""

    def __init__(self) -> None:
        self._rest = ""
        self._name = ""
        self._lines: list[str] = []
        self._size = 0

    def feed(self, text: str) -> Iterator[ServerEvent]:
        """The events that end in this piece, or a pulse if none does."""
        lines = (self._rest + text).replace("\r\n", "\n").split("\n")
        self._rest = lines.pop()
        self._bound(len(self._rest))
        told = False
        for line in lines:
            event = self._line(line)
            if event is not None:
                told = True
                yield event
        if not told:
            yield PULSE

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._event()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._lines.append(value)
            self._size += len(value)
            self._bound(0)
        return None

    def _event(self) -> ServerEvent | None:
        event = ServerEvent(self._name or "message", "\n".join(self._lines)) if self._lines else None
        self._name, self._lines, self._size = "", [], 0
        return event

    def _bound(self, more: int) -> None:
        if self._size + more > EVENT_MAX:
            raise UnexpectedAnswer(f"an event of the server is larger than {EVENT_MAX} characters")
