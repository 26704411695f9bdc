"""How long answers took in the last minutes."""

from __future__ import annotations

from sokovan.proxy.routing.answer_times import SLOT_MS, SLOTS, AnswerTimes
from sokovan.wire.serving.proxy_reports import FIRST_BYTE_BOUNDS_MS, LATENCY_WINDOW_S


def test_an_answer_is_counted_below_the_first_bound_that_it_does_not_pass() -> None:
    window = AnswerTimes()
    assert window.counts(0) == ((), ())
    window.began(0, 5)
    window.began(0, 6)
    window.ended(0, 300_001)
    assert window.counts(0) == ((1, 1), (0,) * len(FIRST_BYTE_BOUNDS_MS) + (1,))


def test_answers_are_forgotten_when_the_window_has_passed() -> None:
    window = AnswerTimes()
    assert SLOT_MS * SLOTS == LATENCY_WINDOW_S * 1000
    for number in range(SLOTS):
        window.began(number * SLOT_MS, 1)
    last_ms = (SLOTS - 1) * SLOT_MS
    assert window.counts(last_ms) == ((SLOTS,), ())
    assert window.counts(last_ms + SLOT_MS) == ((SLOTS - 1,), ())
    window.began(last_ms + 2 * SLOT_MS, 1)
    assert window.counts(last_ms + 2 * SLOT_MS) == ((SLOTS - 1,), ())
    assert window.counts(last_ms + 3 * LATENCY_WINDOW_S * 1000) == ((), ())
