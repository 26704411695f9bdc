"""Passive ejection: an endpoint that fails gets no requests for a while.

Refused connections eject at once, and lost ones where another endpoint serves; gateway errors,
malformed answers and time-outs after three in a row, or at half of at least twenty requests in
ten seconds. Answers of 4xx, 429 among them, never count: they say something about the request,
not about the endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FAILURES_IN_A_ROW = 3
WINDOW_MS = 10_000
WINDOW_REQUESTS_MIN = 20
FIRST_MS, LONGEST_MS = 5_000, 60_000
# The cause if connections were not open in time, which is longer after one that was not.
CONNECT_TIMEOUT = "connect-timeout"
# Statuses that count as failures, with time-outs before the first byte.
FAILURE_STATUSES = frozenset({502, 503, 504})


@dataclass(slots=True)
class Ejection:
    """Failures of one endpoint at one proxy; times are monotonic milliseconds.

    `until_ms` is the end of the ejection in force, 0 without one. `cause` is its reason.
    """

    until_ms: int = 0
    cause: str = ""
    count: int = 0
    _length_ms: int = 0
    _in_a_row: int = 0
    _window_began_ms: int = 0
    _window_requests: int = 0
    _window_failures: int = 0
    causes: dict[str, int] = field(default_factory=dict)

    def active(self, now_ms: int) -> bool:
        """Whether the endpoint gets no requests now."""
        return now_ms < self.until_ms

    def succeeded(self, now_ms: int) -> None:
        """Count an answer that is no failure."""
        self._in_a_row = 0
        self._count(now_ms, failed=0)

    def broken(self, now_ms: int, cause: str) -> None:
        """Eject at once: refused, reset, exited or stalled."""
        self._count(now_ms, failed=1)
        self._eject(now_ms, cause)

    def failed(self, now_ms: int, cause: str, *, rate_allowed: bool) -> None:
        """Count a gateway error or time-out, and eject if there were too many.

        `rate_allowed` is false if half of the endpoints are ejected already: then only
        consecutive failures eject.
        """
        self._in_a_row += 1
        self._count(now_ms, failed=1)
        if self._in_a_row >= FAILURES_IN_A_ROW:
            self._eject(now_ms, cause)
        elif rate_allowed and self._rate_exceeded():
            self._eject(now_ms, "error-rate")

    def lift(self) -> None:
        """End an ejection: a probe found the endpoint healthy."""
        self.until_ms = 0
        self._in_a_row = 0

    def _rate_exceeded(self) -> bool:
        return self._window_requests >= WINDOW_REQUESTS_MIN and 2 * self._window_failures >= self._window_requests

    def _count(self, now_ms: int, *, failed: int) -> None:
        if now_ms - self._window_began_ms >= WINDOW_MS:
            self._window_began_ms, self._window_requests, self._window_failures = now_ms, 0, 0
        self._window_requests += 1
        self._window_failures += failed

    def _eject(self, now_ms: int, cause: str) -> None:
        if self.active(now_ms):
            return
        # One that worked for as long as its last ejection lasted begins anew.
        again = self._length_ms and now_ms - self.until_ms < self._length_ms
        self._length_ms = min(2 * self._length_ms, LONGEST_MS) if again else FIRST_MS
        self.until_ms = now_ms + self._length_ms
        self.cause = cause
        self.count += 1
        self.causes[cause] = self.causes.get(cause, 0) + 1
        self._in_a_row = 0
        self._window_requests = self._window_failures = 0
