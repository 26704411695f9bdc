"""A route keeps the state of its endpoints while the table changes."""

from __future__ import annotations

from sokovan.proxy.routing.route_state import RevisionCounters, RouteState
from sokovan.wire.serving.route_table import RevisionEntry
from tests.unit.proxy.routing.states import endpoint, route


def test_an_endpoint_keeps_its_load_over_a_change_of_the_table() -> None:
    state: RouteState[None] = RouteState(route(endpoint(1), revisions=(RevisionEntry(1, concurrency_max=3),)))
    state.endpoints["k001.1"].outstanding = 2
    state.replace(route(endpoint(1), endpoint(2), revisions=(RevisionEntry(1, concurrency_max=2),)))

    assert state.endpoints["k001.1"].outstanding == 2
    assert not state.endpoints["k001.1"].free(0), "the limit of the new table counts"
    assert [one.entry.endpoint_id for one in state.pools[0].endpoints] == ["k001.1", "k002.1"]


def test_an_endpoint_at_another_address_begins_anew() -> None:
    state: RouteState[None] = RouteState(route(endpoint(1), revisions=(RevisionEntry(1),)))
    before = state.endpoints["k001.1"]
    state.replace(route(endpoint(1, port=9), revisions=(RevisionEntry(1),)))

    assert state.endpoints["k001.1"] is not before


def test_only_active_endpoints_with_weight_are_in_a_pool() -> None:
    entry = route(
        endpoint(1), endpoint(2, state="DRAINING"), endpoint(3, weight=0), endpoint(4, state="WARMING"),
        revisions=(RevisionEntry(1),),
    )  # fmt: skip
    state: RouteState[None] = RouteState(entry)

    assert [one.entry.endpoint_id for one in state.pools[0].endpoints] == ["k001.1"]
    assert state.alive(0)
    assert state.warming()


def test_the_first_byte_is_counted_in_the_bucket_of_its_time() -> None:
    counters = RevisionCounters()
    for after_ms in (5, 6, 400_000):
        counters.first_byte(after_ms)
    report = counters.report(1)

    assert (report.first_byte_counts[0], report.first_byte_counts[1], report.first_byte_counts[-1]) == (1, 1, 1)
    assert report.first_byte_ms_sum == 400_011


def test_a_report_has_demand_and_counters() -> None:
    state: RouteState[str] = RouteState(route(holding=True))
    state.arrived, state.in_flight = 5, 2
    state.queue.add("k", "waiting")

    report = state.report()
    assert (report.arrived, report.in_flight, report.queued, report.holding) == (5, 2, 1, True)
