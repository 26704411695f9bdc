"""How long a connection to an endpoint may take to open.

One that is given up costs an endpoint that lacks processor time as much as one that is used:
where some were late, the next ones get more time.
"""

from __future__ import annotations

# The longest is shorter than the usual limit of a probe, which ends an ejection for late connections.
FIRST_MS, LONGEST_MS = 1_000, 4_000
# Connections that open in this part of their time may get less.
SOON_PART = 4


class ConnectionTime:
    """The limit of the next connections to one endpoint."""

    __slots__ = ("_limit_ms",)

    def __init__(self) -> None:
        self._limit_ms = FIRST_MS

    def limit_ms(self, *, left_ms: int) -> int:
        """The limit of a connection for a request that may wait so much longer."""
        return max(FIRST_MS, min(self._limit_ms, left_ms))

    def was_late(self, limit_ms: int) -> None:
        """Give the next ones twice its time, unless they have more already."""
        if limit_ms >= self._limit_ms:
            self._limit_ms = min(2 * limit_ms, LONGEST_MS)

    def opened(self, after_ms: int) -> None:
        """Give the next ones half the time if one was open soon."""
        if SOON_PART * after_ms < self._limit_ms:
            self._limit_ms = max(self._limit_ms // 2, FIRST_MS)
