"""An endpoint that fails is left alone for a while, and never for a caller's mistake."""

from __future__ import annotations

from sokovan.proxy.routing.ejection import Ejection


def failed(ejection: Ejection, now_ms: int, *, rate_allowed: bool = True) -> None:
    ejection.failed(now_ms, "503", rate_allowed=rate_allowed)


def test_a_refused_connection_ejects_at_once_for_five_seconds() -> None:
    ejection = Ejection()
    ejection.broken(1_000, "refused")

    assert ejection.active(5_999)
    assert not ejection.active(6_000)
    assert ejection.causes == {"refused": 1}


def test_three_failures_in_a_row_eject() -> None:
    ejection = Ejection()
    failed(ejection, 1_000)
    failed(ejection, 1_001)
    assert not ejection.active(1_002)

    failed(ejection, 1_002)
    assert ejection.active(1_003)


def test_a_success_between_failures_starts_the_count_anew() -> None:
    ejection = Ejection()
    for now_ms in range(1_000, 1_010, 2):
        failed(ejection, now_ms)
        ejection.succeeded(now_ms + 1)

    assert not ejection.active(1_010)


def test_half_of_twenty_requests_within_ten_seconds_eject() -> None:
    ejection = Ejection()
    for number in range(10):
        ejection.succeeded(1_000 + number)
        failed(ejection, 1_000 + number)

    assert ejection.active(1_010)
    assert ejection.cause == "error-rate"


def test_the_rate_ejects_nothing_while_half_of_the_endpoints_are_out() -> None:
    ejection = Ejection()
    for number in range(30):
        ejection.succeeded(1_000 + number)
        failed(ejection, 1_000 + number, rate_allowed=False)

    assert not ejection.active(1_100)


def test_failures_of_an_earlier_window_do_not_count() -> None:
    ejection = Ejection()
    for number in range(9):
        ejection.succeeded(1_000 + number)
        failed(ejection, 1_000 + number)
    ejection.succeeded(12_000)
    failed(ejection, 12_001)

    assert not ejection.active(12_002)


def test_ejections_double_up_to_a_minute_and_begin_anew_after_a_good_time() -> None:
    ejection, now_ms, lengths = Ejection(), 0, []
    for _ in range(6):
        ejection.broken(now_ms, "reset")
        lengths.append(ejection.until_ms - now_ms)
        now_ms = ejection.until_ms + 1
    assert lengths == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]

    now_ms = ejection.until_ms + 60_000
    ejection.broken(now_ms, "reset")
    assert ejection.until_ms - now_ms == 5_000


def test_an_ejection_in_force_is_not_prolonged() -> None:
    ejection = Ejection()
    ejection.broken(0, "refused")
    ejection.broken(4_000, "refused")

    assert ejection.until_ms == 5_000
    ejection.lift()
    assert not ejection.active(4_001)
