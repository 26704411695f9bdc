"""The state of an endpoint: verdicts of probes, ejection, load."""

from __future__ import annotations

from msgspec.structs import replace

from sokovan.proxy.routing.endpoint_state import FULL_MS, RESTS_MS
from sokovan.proxy.routing.engine_counts import EngineCounts
from sokovan.wire.serving.route_table import ProbeTerms
from tests.unit.proxy.routing.states import endpoint


def test_three_failed_probes_take_an_endpoint_out_and_two_bring_it_back() -> None:
    state = endpoint(1)
    for now_ms in (1, 2):
        state.probed(now_ms, ok=False, error="refused")
    assert state.alive(3)

    state.probed(3, ok=False, error="refused")
    assert not state.alive(4)
    assert state.report(4).health == "unhealthy"
    assert state.report(4).last_error == "refused"

    state.probed(5, ok=True)
    assert not state.alive(6)
    state.probed(6, ok=True)
    assert state.alive(7)


def test_an_endpoint_that_became_healthy_has_no_error_of_the_time_before() -> None:
    state = endpoint(1)
    state.probed(1, ok=False, error="the probe failed: Connection refused")
    state.probed(2, ok=True)
    assert state.last_error

    state.probed(3, ok=True)
    assert state.last_error == ""
    state.last_error = "reset"
    state.probed(4, ok=True)
    assert state.last_error == "reset"  # of a request while it served


def test_the_engine_tells_of_the_requests_of_others_and_of_its_queue_for_two_seconds() -> None:
    state = endpoint(1, outstanding=3)
    state.engine.sampled(0, EngineCounts(4, 2), own=3)
    state.outstanding = 1
    assert state.load(1_999) == 4, "three of others, and one that is left of its own"
    assert state.report(1_999).waiting == 2
    assert (state.load(2_000), state.report(2_000).waiting) == (1, 0)

    state.engine.sampled(3_000, EngineCounts(0, 0), own=1)
    assert state.load(3_000) == 1, "its own count from before it sends is never too high"


def test_flapping_probes_change_no_verdict() -> None:
    state = endpoint(1)
    for now_ms in range(20):
        state.probed(now_ms, ok=now_ms % 2 == 0)

    assert state.report(20).health == "unknown"
    assert state.alive(20)


def test_a_probe_ends_an_ejection_for_a_refused_connection_and_no_other() -> None:
    refused, failing = endpoint(1), endpoint(2)
    refused.ejection.broken(0, "refused")
    failing.ejection.broken(0, "stalled")
    for state in (refused, failing):
        state.probed(1, ok=True)

    assert refused.alive(2)
    assert not failing.alive(2)


def test_late_connections_take_no_endpoint_out_for_long_while_its_probes_succeed() -> None:
    late = endpoint(1)
    for now_ms in range(2):
        late.probed(now_ms, ok=True)
    late.ejection.broken(2, "connect-timeout")
    assert (late.alive(3), late.free(3)) == (True, False)
    late.probed(4, ok=True)
    assert late.free(5)
    late.ejection.broken(6, "connect-timeout")
    for now_ms in range(7, 10):
        late.probed(now_ms, ok=False)
    assert not late.alive(10)


def test_an_address_of_version_six_is_written_in_brackets() -> None:
    assert endpoint(1, host="::1", port=80).address == b"[::1]:80"


def test_an_endpoint_that_is_not_active_is_healthy_only_after_a_smoke_request() -> None:
    probe = ProbeTerms(path="/health", smoke_path="/v1/chat/completions")
    state = endpoint(1, state="WARMING", probe=probe)
    for now_ms in (1, 2):
        state.probed(now_ms, ok=True)
    assert state.smoke_due
    assert state.report(3).health == "unknown"
    state.smoke_answered("status 500")
    state.smoke_answered("status 500")
    assert (state.smoke_due, state.report(4).smoke_failures) == (True, 2)
    state.smoke_answered("")
    assert (state.smoke_due, state.report(5).smoke_failures, state.report(5).health) == (False, 0, "healthy")

    for status in ("ACTIVE", "UNHEALTHY"):
        state.replace(replace(state.entry, state=status), concurrency_max=1)
    assert state.smoke_due, "one that was unhealthy answers again"


def test_a_port_belongs_to_its_first_listeners_once_the_endpoint_serves() -> None:
    state = endpoint(1, state="WARMING")
    assert state.owns(frozenset({1}))
    assert state.owns(frozenset({2, 3})), "an engine may begin to listen again while it starts"
    state.replace(replace(state.entry, state="ACTIVE"), concurrency_max=1)
    assert state.owns(frozenset({3})), "one of several processes may end"
    assert state.owns(frozenset({2, 3})), "and come back"
    assert not state.owns(frozenset({2, 4})), "another program shares the port"
    assert not state.owns(frozenset({4}))
    assert not state.owns(frozenset())
    assert state.owns(None), "not known"
    state.replace(replace(state.entry, state="UNHEALTHY"), concurrency_max=1)
    assert state.owns(frozenset({4})), "the manager says that its kernel runs"


def test_sockets_of_this_machine_say_nothing_of_an_endpoint_on_another_one() -> None:
    state = endpoint(1, state="WARMING", agent="far")
    assert state.owns(frozenset({1}))
    state.replace(replace(state.entry, state="ACTIVE"), concurrency_max=1)
    assert state.owns(frozenset({4}))


def test_an_engine_that_said_it_is_full_gets_no_more_than_it_has_for_a_while() -> None:
    state = endpoint(1)
    state.outstanding = 3
    state.said_full(0)
    state.outstanding = 2
    assert not state.free(1)
    state.outstanding = 1
    assert state.free(1)
    assert state.alive(1)
    state.outstanding = 2
    assert state.free(FULL_MS)


def test_an_engine_that_is_full_without_a_request_of_ours_rests_for_a_moment() -> None:
    state = endpoint(1)
    state.outstanding = 1
    state.said_full(0)
    state.outstanding = 0
    assert not state.free(RESTS_MS - 1)
    assert state.free(RESTS_MS)
    state.rest(RESTS_MS)
    assert not state.free(RESTS_MS)


def test_a_probe_does_not_bring_back_an_endpoint_that_cuts_answer_after_answer() -> None:
    state = endpoint(1)
    for now_ms in (*range(10), 6_000):
        state.recent.failed(now_ms, "reset")
    state.ejection.broken(6_000, "reset")
    state.probed(6_001, ok=True)
    assert state.alive(6_001), "as long as nobody else was answered, it may be the requests"

    state.recent.answered_elsewhere()
    state.ejection.broken(6_002, "reset")
    state.probed(6_003, ok=True)
    assert not state.alive(6_003)
    assert state.alive(6_002 + 5_000)
