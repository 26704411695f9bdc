"""Limits of connections: idle ones make room, busy ones stay."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.entrypoints.web.connection_limits import ConnectionLimits, Connections, reserved_files
from sokovan.testing.clock import VirtualClock
from tests.unit.api.api_harness import RecordedTelemetry


class Wire:
    """A connection that knows whether it was closed."""

    closed = False

    def abort(self) -> None:
        self.closed = True


def connections(clock: VirtualClock | None = None, **limits: Any) -> tuple[Connections, list[str]]:
    logged: list[str] = []
    made = Connections(
        ConnectionLimits(**limits), clock or VirtualClock(), telemetry=RecordedTelemetry(), log=logged.append
    )
    return made, logged


def admitted(made: Connections, address: str) -> Wire:
    wire = Wire()
    assert made.admit(wire, address)
    return wire


def test_a_new_connection_displaces_the_one_of_its_address_that_has_waited_longest() -> None:
    made, logged = connections(per_address_max=2)
    first, second, other = admitted(made, "a"), admitted(made, "a"), admitted(made, "b")
    made.expect(first, 10)  # it has just had a response
    third = admitted(made, "a")
    assert [one.closed for one in (first, second, third, other)] == [False, True, False, False]
    assert len(logged) == 1
    assert "1 displaced" in logged[0]


def test_connections_that_wait_for_the_server_stay_and_their_address_gets_no_more() -> None:
    made, _ = connections(per_address_max=1)
    busy, refused = admitted(made, "a"), Wire()
    made.serve(busy)
    assert not made.admit(refused, "a")
    assert (busy.closed, refused.closed) == (False, True)
    admitted(made, "b")
    made.release(busy)
    admitted(made, "a")


def test_when_all_are_taken_the_address_with_most_of_them_gives_one() -> None:
    made, _ = connections(total_max=3, per_address_max=3)
    crowd, lone = [admitted(made, "a") for _ in range(2)], admitted(made, "b")
    admitted(made, "c")
    assert [one.closed for one in (*crowd, lone)] == [True, False, False]
    assert len(made._addresses) == 3


def test_when_all_are_taken_and_busy_a_new_one_is_refused() -> None:
    made, _ = connections(total_max=1)
    made.serve(admitted(made, "a"))
    assert not made.admit(Wire(), "b")


async def test_a_connection_that_sends_no_request_in_time_is_closed() -> None:
    clock = VirtualClock()
    made, logged = connections(clock, head_s=10)
    silent, busy = admitted(made, "a"), admitted(made, "a")
    made.serve(busy)
    await clock.advance(9)
    made.close_overdue()
    assert not silent.closed
    await clock.advance(1)
    made.close_overdue()
    assert (silent.closed, busy.closed, logged) == (True, False, [])
    made.expect(silent, 10)  # too late: it counts no longer
    assert made._waiting == {}


async def test_the_log_has_a_line_at_intervals_and_not_for_each() -> None:
    clock = VirtualClock()
    made, logged = connections(clock, per_address_max=1)
    for _ in range(100):
        admitted(made, "a")
    assert len(logged) == 1
    await clock.advance(11)
    admitted(made, "a")
    assert "100 displaced" in logged[1]


@pytest.mark.parametrize(("files", "total", "each"), [(20_000, 4096, 2048), (1024, 512, 448), (4, 2, 2)])
def test_descriptors_are_left_to_the_rest_of_the_process_and_connections_to_other_addresses(
    files: int, total: int, each: int
) -> None:
    limits = ConnectionLimits().within(files)
    assert (limits.total_max, limits.per_address_max) == (total, each)
    assert limits.total_max + reserved_files(files) <= files


def test_processes_on_one_socket_have_a_part_of_the_connections() -> None:
    part = ConnectionLimits(total_max=100, per_address_max=10, idle_s=5).shared_by(3)
    assert (part.total_max, part.per_address_max, part.idle_s) == (34, 4, 5)
