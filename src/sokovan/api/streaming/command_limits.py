"""Counts commands and connections in kernels: no user takes all of an agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sokovan.api.errors import StreamsFull
from sokovan.api.streaming.event_hub import RETRY_AFTER_S
from sokovan.domain.ids import AgentId


class CommandLimits:
    """The open ones of one API process, by user and agent."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._open: Counter[tuple[str, AgentId]] = Counter()

    @contextmanager
    def taken(self, user: str, agent_id: AgentId) -> Iterator[None]:
        """A place as long as the context is open. Raises StreamsFull."""
        key = (user, agent_id)
        if self._open[key] >= self._most:
            problem = f"{user} has {self._open[key]} commands and connections at agent {agent_id}"
            raise StreamsFull(f"{problem}, the limit is {self._most}", wait_s=RETRY_AFTER_S)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
