"""The last answers of one endpoint: whether it fails again and again.

Unlike an ejection, which ends by itself, this is for the manager, which may replace the
replica. So it must not be the fault of a client: an endpoint fails only if another one has
since answered a key whose answers failed here.
"""

from __future__ import annotations

from sokovan.wire.serving.proxy_reports import ANSWERS_MAX

# After so long without any, the earlier ones say nothing.
FORGOTTEN_MS = 300_000
# So many failures in a row, or three quarters of the last ANSWERS_MAX.
FAILURES_IN_A_ROW = 10
FAILURES_MIN = ANSWERS_MAX * 3 // 4
# It must fail again after so long: the end of a process breaks many answers at once.
PERSISTS_MS = 5_000
_LAST = (1 << FAILURES_IN_A_ROW) - 1
_ALL = (1 << ANSWERS_MAX) - 1


class RecentAnswers:
    """The last answers, one bit each, set for a failure.

    Times are monotonic milliseconds; `cause` is that of the last failure.
    """

    __slots__ = ("_answered_elsewhere", "_bits", "_count", "_failing_ms", "_last_ms", "_persists", "cause")

    def __init__(self) -> None:
        self._last_ms = 0
        self.cause = ""
        self._forget()

    def _forget(self) -> None:
        self._bits = self._count = self._failing_ms = 0
        self._answered_elsewhere = self._persists = False

    def succeeded(self, now_ms: int) -> None:
        """Count an answer that came whole."""
        if now_ms - self._last_ms > FORGOTTEN_MS:
            self._forget()
        self._bits = self._bits << 1 & _ALL
        self._count += 1
        self._last_ms = now_ms
        if self._failing_ms and not self._fails:
            self._failing_ms = 0
            self._answered_elsewhere = self._persists = False

    def failed(self, now_ms: int, cause: str) -> None:
        """Count an answer that failed."""
        if now_ms - self._last_ms > FORGOTTEN_MS:
            self._forget()
        self.cause = cause
        self._bits = (self._bits << 1 | 1) & _ALL
        self._count += 1
        self._last_ms = now_ms
        if not self._fails:
            return
        if not self._failing_ms:
            self._failing_ms = now_ms
        elif now_ms - self._failing_ms >= PERSISTS_MS:
            self._persists = True

    def answered_elsewhere(self) -> None:
        """Take note that another endpoint answered a key whose answer failed here."""
        self._answered_elsewhere = True

    @property
    def _fails(self) -> bool:
        return self._bits & _LAST == _LAST or self._bits.bit_count() >= FAILURES_MIN

    def counts(self, now_ms: int) -> tuple[int, int]:
        """How many answers are known, and how many of them failed."""
        if now_ms - self._last_ms > FORGOTTEN_MS:
            return 0, 0
        return min(self._count, ANSWERS_MAX), self._bits.bit_count()

    def failing(self, now_ms: int) -> bool:
        """Whether it fails again and again, while another endpoint answers."""
        return self._persists and self._answered_elsewhere and now_ms - self._last_ms <= FORGOTTEN_MS
