"""Connections to an endpoint that lacks processor time get more time to open."""

from __future__ import annotations

from sokovan.proxy.routing.connection_time import ConnectionTime


def test_each_late_connection_doubles_the_time_up_to_a_limit() -> None:
    time, limits = ConnectionTime(), list[int]()
    for _ in range(4):
        limits.append(time.limit_ms(left_ms=30_000))
        time.was_late(limits[-1])

    assert limits == [1_000, 2_000, 4_000, 4_000]


def test_connections_that_were_late_together_double_it_once() -> None:
    time = ConnectionTime()
    for _ in range(10):
        time.was_late(1_000)

    assert time.limit_ms(left_ms=30_000) == 2_000


def test_a_connection_takes_no_longer_than_its_request_may_wait_and_has_a_second_at_least() -> None:
    time = ConnectionTime()
    time.was_late(1_000)

    assert [time.limit_ms(left_ms=left_ms) for left_ms in (1_500, 10, -5)] == [1_500, 1_000, 1_000]
    time.was_late(1_500)
    assert time.limit_ms(left_ms=30_000) == 2_000, "it did not have the whole time"


def test_the_time_is_halved_when_connections_open_in_a_quarter_of_it() -> None:
    time = ConnectionTime()
    time.was_late(1_000)
    time.opened(1_200)
    assert time.limit_ms(left_ms=30_000) == 2_000, "with less, every second one would be late"

    for _ in range(2):
        time.opened(100)
    assert time.limit_ms(left_ms=30_000) == 1_000
