"""The waiting requests of one route, served round robin over keys."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

W = TypeVar("W")


class RequestQueue(Generic[W]):
    """Requests by key; one key with many requests does not delay the others."""

    __slots__ = ("_by_key", "_turns", "length")

    def __init__(self) -> None:
        self._by_key: dict[str, deque[W]] = {}
        self._turns: deque[str] = deque()
        self.length = 0

    def add(self, key_id: str, waiting: W) -> None:
        """Append a request."""
        queue = self._by_key.get(key_id)
        if queue is None:
            queue = self._by_key[key_id] = deque()
            self._turns.append(key_id)
        queue.append(waiting)
        self.length += 1

    def first(self) -> W | None:
        """The request whose turn it is."""
        return self._by_key[self._turns[0]][0] if self._turns else None

    def take(self) -> W:
        """Remove the request whose turn it is. Raises IndexError if none waits."""
        key_id = self._turns.popleft()
        queue = self._by_key[key_id]
        taken = queue.popleft()
        self.length -= 1
        if queue:
            self._turns.append(key_id)
        else:
            del self._by_key[key_id]
        return taken

    def remove(self, key_id: str, waiting: W) -> None:
        """Remove a request whose client has left, or whose time is over."""
        queue = self._by_key[key_id]
        queue.remove(waiting)
        self.length -= 1
        if not queue:
            del self._by_key[key_id]
            self._turns.remove(key_id)

    def all(self) -> list[W]:
        """Every waiting request."""
        return [waiting for queue in self._by_key.values() for waiting in queue]
