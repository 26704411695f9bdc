"""The last events of this process, numbered, so that a stream can be resumed."""

from __future__ import annotations

from collections import deque

from sokovan.domain.events import Event, KernelsMoved, VerdictsChanged

# Sessions and kernels that kept events name at most: one event may name thousands.
NAMED_MAX = 50_000
_SEPARATOR = "."


class RecentEvents:
    """Keeps the last `most` events.

    A place is the number of events before it, with the name of this process: places of
    others, and those before a loss, are unknown.
    """

    def __init__(self, name: str, *, most: int) -> None:
        self._name, self._most = name, most
        self._kept: deque[Event] = deque()
        self._named = 0
        self.number = 0

    def add(self, event: Event) -> None:
        """Number an event and keep it."""
        self.number += 1
        self._kept.append(event)
        self._named += _names(event)
        while len(self._kept) > self._most or (self._named > NAMED_MAX and self._kept):
            self._named -= _names(self._kept.popleft())

    def forget(self) -> None:
        """Make every place so far unknown: events were lost."""
        self.number += 1
        self._kept.clear()
        self._named = 0

    def place(self, number: int) -> str:
        """The place after this many events."""
        return f"{self._name}{_SEPARATOR}{number}"

    def since(self, place: str) -> list[Event] | None:
        """The events after a place; None if it is unknown."""
        name, _, text = place.rpartition(_SEPARATOR)
        if name != self._name or not (text.isascii() and text.isdigit()):
            return None
        missing = self.number - int(text[:20])
        if not 0 <= missing <= len(self._kept):
            return None
        return list(self._kept)[len(self._kept) - missing :]


def _names(event: Event) -> int:
    if isinstance(event, KernelsMoved):
        return len(event.kernel_ids)
    return len(event.session_ids) if isinstance(event, VerdictsChanged) else 0
