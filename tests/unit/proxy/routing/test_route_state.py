"""A route keeps the state of its endpoints while the table changes."""

from __future__ import annotations

from sokovan.proxy.routing.route_state import SUSPECTS_MAX, RevisionCounters, RouteState
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


def test_an_answer_to_the_same_key_elsewhere_says_whose_fault_a_failure_is() -> None:
    state: RouteState[None] = RouteState(route(endpoint(1), endpoint(2), revisions=(RevisionEntry(1),)))
    bad, good = state.endpoints["k001.1"], state.endpoints["k002.1"]
    for now_ms in (*range(10), 6_000):
        state.answer_failed(bad, "mine", now_ms, cause="reset")
        state.answer_came(good, "yours", now_ms)
    assert not bad.recent.failing(6_000), "the key whose answers fail was answered nowhere"
    assert not bad.report(6_000).failing

    state.answer_came(good, "mine", 6_001)
    report = bad.report(6_001)
    assert (report.failing, report.answers, report.failures, report.last_error) == (True, 11, 11, "reset")
    assert not good.report(6_001).failing


def test_an_endpoint_is_not_blamed_by_its_own_answers_and_few_keys_are_kept() -> None:
    state: RouteState[None] = RouteState(route(endpoint(1), revisions=(RevisionEntry(1),)))
    only = state.endpoints["k001.1"]
    for number in range(200):
        state.answer_failed(only, f"key-{number}", 100 * number, cause="reset")
    assert len(state.suspects) == SUSPECTS_MAX
    state.answer_came(only, "key-199", 20_000)
    for _ in range(10):
        state.answer_failed(only, "key-199", 30_000, cause="reset")
    assert not only.recent.failing(30_000)
