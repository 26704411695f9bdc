"""Which failed requests may be tried again, and how many."""

from __future__ import annotations

RETRIES_MAX = 2
# A larger body is not kept for another try.
BODY_KEPT_MAX = 1 << 20
# Each request earns a part of a retry; some are saved up for the requests at an endpoint that ends.
EARNED_PERCENT = 20
SAVED_MAX = 100 * 100


class RetryBudget:
    """Bounds retries to a fifth of the requests, in hundredths of a retry."""

    __slots__ = ("_saved", "spent")

    def __init__(self) -> None:
        self._saved = SAVED_MAX
        self.spent = 0

    def earn(self) -> None:
        """Count a request."""
        self._saved = min(self._saved + EARNED_PERCENT, SAVED_MAX)

    def spend(self) -> bool:
        """Take one retry; false if there is none left."""
        if self._saved < 100:
            return False
        self._saved -= 100
        self.spent += 1
        return True


def may_retry(*, tries: int, sent: bool, repeatable: bool, kept: bool) -> bool:
    """Whether a request without a byte of its response may be tried again.

    `tries` counts those made. One that was not `sent` may always; one that was, only if it
    is `repeatable`: GET, HEAD, with an Idempotency-Key, or inference.
    """
    return tries <= RETRIES_MAX and kept and (repeatable or not sent)
