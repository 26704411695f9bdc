"""When a request may be repeated."""

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.orchestrator.request_backoff import AgentRequestKey, RequestBackoff
from sokovan.testing.clock import VirtualClock

A1, A2 = AgentId("a1"), AgentId("a2")
KEY, OTHER = AgentRequestKey("stop", A1, "k1", 1), AgentRequestKey("stop", A2, "k2", 1)


async def test_a_failure_makes_a_request_wait_twice_as_long_each_time() -> None:
    clock = VirtualClock()
    pauses = RequestBackoff(clock, RetryPolicy(delay_first_ms=500, delay_max_ms=1_500))
    waits = []
    for _ in range(4):
        pauses.failed(KEY)
        waits.append(pauses.next_due_s())
        await clock.advance(5)
        assert pauses.due(KEY)
    assert waits == [0.5, 1.0, 1.5, 1.5]
    assert pauses.failures(KEY) == 4
    assert pauses.failures(OTHER) == 0


async def test_an_agent_that_is_heard_is_asked_again_about_what_it_did_not_answer() -> None:
    pauses = RequestBackoff(VirtualClock(), RetryPolicy())
    pauses.failed(KEY)
    pauses.failed(OTHER)
    pauses.hurry_failed({A1})
    assert pauses.due(KEY)
    assert not pauses.due(OTHER)
    assert pauses.failures(KEY) == 1


async def test_a_rest_after_success_ends_with_a_new_beginning_of_the_agent() -> None:
    pauses = RequestBackoff(VirtualClock(), RetryPolicy())
    pauses.rest(KEY, 10)
    pauses.hurry_failed({A1})
    assert not pauses.due(KEY)
    pauses.hurry_all({A1})
    assert pauses.due(KEY)
    pauses.rest(KEY, 10)
    pauses.hurry(KEY)
    assert pauses.due(KEY)


async def test_pauses_that_nobody_asks_about_are_forgotten() -> None:
    clock = VirtualClock()
    pauses = RequestBackoff(clock, RetryPolicy())
    pauses.failed(KEY)
    await clock.advance(700)
    assert pauses.next_due_s() is None
    assert pauses.failures(KEY) == 0
    pauses.failed(KEY)
    pauses.clear()
    assert pauses.due(KEY)
