"""Histograms of how long the answers of one endpoint took lately."""

from __future__ import annotations

from bisect import bisect_left

from sokovan.wire.serving.proxy_reports import FIRST_BYTE_BOUNDS_MS, LATENCY_WINDOW_S

SLOTS = 10
# Answers of the same part of the time are counted, and forgotten, together.
SLOT_MS = LATENCY_WINDOW_S * 1000 // SLOTS
_COUNTS = len(FIRST_BYTE_BOUNDS_MS) + 1


class AnswerTimes:
    """Counts the answers of the last LATENCY_WINDOW_S by how long they took.

    Times are monotonic milliseconds. An endpoint without answers takes no room.
    """

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: list[tuple[int, list[int], list[int]]] = []

    def began(self, now_ms: int, after_ms: int) -> None:
        """Count the first part of an answer, which came `after_ms` after its request."""
        self._slot(now_ms)[1][bisect_left(FIRST_BYTE_BOUNDS_MS, after_ms)] += 1

    def ended(self, now_ms: int, after_ms: int) -> None:
        """Count a whole answer."""
        self._slot(now_ms)[2][bisect_left(FIRST_BYTE_BOUNDS_MS, after_ms)] += 1

    def counts(self, now_ms: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The histograms of first parts and of whole answers, without zeros at the end."""
        self._forget(now_ms // SLOT_MS)
        began, ended = [0] * _COUNTS, [0] * _COUNTS
        for _, some_began, some_ended in self._slots:
            for index in range(_COUNTS):
                began[index] += some_began[index]
                ended[index] += some_ended[index]
        return _trimmed(began), _trimmed(ended)

    def _slot(self, now_ms: int) -> tuple[int, list[int], list[int]]:
        number = now_ms // SLOT_MS
        if not self._slots or self._slots[-1][0] != number:
            self._forget(number)
            self._slots.append((number, [0] * _COUNTS, [0] * _COUNTS))
        return self._slots[-1]

    def _forget(self, number: int) -> None:
        while self._slots and self._slots[0][0] <= number - SLOTS:
            del self._slots[0]


def _trimmed(counts: list[int]) -> tuple[int, ...]:
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)
