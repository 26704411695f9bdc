"""Agent requests: limits, deduplication, replies and backoff."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.retry import RetryDelay
from sokovan.orchestrator.agent_requests import (
    AgentRequestKey,
    AgentRequestLimits,
    AgentRequests,
    Notify,
    RequestBackoff,
    code_and_detail,
)
from sokovan.orchestrator.handler import DeadlinePassed, WorkCancelled
from sokovan.testing.clock import VirtualClock

A1, A2 = AgentId("a1"), AgentId("a2")
KEY, OTHER = AgentRequestKey("stop", A1, "k1", 1), AgentRequestKey("stop", A2, "k2", 1)


def key(subject: str, agent_id: AgentId = A1) -> AgentRequestKey:
    return AgentRequestKey("stop", agent_id, subject)


class Harness:
    """Agent requests, and work that blocks until `door` is set."""

    def __init__(self) -> None:
        self.clock, self.woken, self.running = VirtualClock(), 0, 0
        limits = AgentRequestLimits(concurrent_max=3, per_agent=2, timeout_s=10, settle_s=0.05)
        self.requests = AgentRequests(self.clock, wake=self.wake, limits=limits)
        self.door = asyncio.Event()

    async def wake(self) -> None:
        self.woken += 1

    async def quick(self) -> str:
        return "done"

    async def slow(self) -> str:
        self.running += 1
        await self.door.wait()
        return "late"

    async def failing(self) -> str:
        raise Conflict("no")


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    made = Harness()
    yield made
    await made.requests.close()


async def settled(harness: Harness) -> None:
    # As handlers do: right after the requests, before they run.
    passing = asyncio.ensure_future(harness.clock.advance(0.1))
    await harness.requests.settle("stop")
    await passing


async def test_a_quick_answer_is_there_after_a_moment_and_wakes_no_cycle(harness: Harness) -> None:
    assert harness.requests.begin(key("k1"), harness.quick)
    await settled(harness)
    [reply] = harness.requests.take("stop")
    assert (reply.key, reply.value, reply.error) == (key("k1"), "done", None)
    assert harness.requests.take("stop") == []
    assert harness.woken == 0


async def test_a_slow_reply_is_not_waited_for_and_wakes_the_next_cycle(harness: Harness) -> None:
    harness.requests.begin(key("k1"), harness.slow)
    await settled(harness)
    assert harness.requests.take("stop") == []
    assert harness.requests.under_way == 1
    harness.door.set()
    await harness.clock.advance(0)
    assert harness.woken == 1
    assert harness.requests.waiting == 1


async def test_a_request_is_waited_for_once_and_one_of_another_kind_not_at_all(harness: Harness) -> None:
    harness.requests.begin(key("of a gang"), harness.slow)
    await settled(harness)
    harness.requests.begin(AgentRequestKey("create", A1, "k2"), harness.slow)
    harness.requests.begin(key("small", A2), harness.quick)
    await harness.requests.settle("stop")  # no time passes: with the others it would wait until it does
    assert [reply.key for reply in harness.requests.take("stop")] == [key("small", A2)]
    await harness.requests.settle("stop", "kill")
    assert harness.requests.under_way == 2


async def test_replies_that_are_left_are_there_for_the_next_who_asks(harness: Harness) -> None:
    for name in ("k1", "k2"):
        harness.requests.begin(key(name), harness.quick)
    await settled(harness)
    taken = harness.requests.take("stop", leave=lambda reply: reply.key.subject == "k1")
    assert ([reply.key for reply in taken], harness.requests.waiting) == ([key("k2")], 1)
    assert [reply.key for reply in harness.requests.take("stop")] == [key("k1")]
    harness.requests.put_back(taken)
    assert (harness.requests.waiting, harness.requests.take("stop")) == (1, taken)


async def test_nothing_is_asked_twice_at_a_time(harness: Harness) -> None:
    assert harness.requests.begin(key("k1"), harness.slow)
    assert not harness.requests.begin(key("k1"), harness.slow)
    harness.door.set()
    await settled(harness)
    assert harness.requests.begin(key("k1"), harness.quick)


async def test_one_agent_does_not_take_everybodys_turn(harness: Harness) -> None:
    for subject in ("k1", "k2", "k3", "k4"):
        harness.requests.begin(key(subject), harness.slow)
    harness.requests.begin(key("k5", A2), harness.quick)
    await settled(harness)
    assert harness.running == 2
    assert [reply.key for reply in harness.requests.take("stop")] == [key("k5", A2)]


async def test_a_request_that_hangs_ends_at_its_deadline(harness: Harness) -> None:
    harness.requests.begin(key("k1"), harness.slow)
    await harness.clock.advance(10.1)
    [reply] = harness.requests.take("stop")
    assert isinstance(reply.error, DeadlinePassed)
    assert not harness.requests.begin(key("k1"), harness.quick)
    await harness.clock.advance(1)
    assert harness.requests.begin(key("k1"), harness.quick)


async def test_replies_without_notification_are_dropped(harness: Harness) -> None:
    harness.requests.begin(key("k1"), harness.quick, notify=Notify.FAILURES, hold_s=5)
    harness.requests.begin(key("k2"), harness.failing, notify=Notify.FAILURES)
    harness.requests.begin(key("k3", A2), harness.failing, notify=Notify.NOTHING)
    await settled(harness)
    assert [reply.key for reply in harness.requests.take("stop")] == [key("k2")]
    assert not harness.requests.backoff.due(key("k1"))


async def test_closing_gives_everything_up(harness: Harness) -> None:
    harness.requests.begin(key("k1"), harness.slow)
    await harness.clock.advance(0)
    await harness.requests.close()
    assert (harness.requests.under_way, harness.requests.waiting) == (0, 0)
    assert harness.requests.begin(key("k1"), harness.quick)


def test_errors_have_a_code_and_a_detail() -> None:
    assert code_and_detail(Conflict("in the way")) == ("conflict", "in the way")
    assert code_and_detail(ValueError("bad")) == ("internal", "ValueError: bad")


async def test_work_that_cancels_itself_has_failed_and_can_be_asked_again(harness: Harness) -> None:
    async def cancels_itself() -> str:
        raise asyncio.CancelledError

    harness.requests.begin(key("k1"), cancels_itself)
    await settled(harness)
    [reply] = harness.requests.take("stop")
    assert isinstance(reply.error, WorkCancelled)
    assert harness.requests.under_way == 0
    await harness.clock.advance(1)
    assert harness.requests.begin(key("k1"), harness.quick)


async def test_a_few_agents_that_hang_leave_room_for_the_others() -> None:
    harness = Harness()
    harness.requests = AgentRequests(harness.clock, wake=harness.wake)
    for agent in range(8):
        for subject in range(20):
            harness.requests.begin(key(f"k{agent}.{subject}", AgentId(f"a{agent}")), harness.slow)
    harness.requests.begin(key("k", AgentId("b")), harness.quick)
    await settled(harness)
    assert [reply.key.subject for reply in harness.requests.take("stop")] == ["k"]
    await harness.requests.close()


async def test_a_failure_makes_a_request_wait_twice_as_long_each_time() -> None:
    clock = VirtualClock()
    backoff = RequestBackoff(clock, RetryDelay(first_ms=500, most_ms=1_500))
    waits = []
    for _ in range(4):
        backoff.failed(KEY)
        waits.append(backoff.next_due_s())
        await clock.advance(5)
        assert backoff.due(KEY)
    assert waits == [0.5, 1.0, 1.5, 1.5]
    assert backoff.failures(KEY) == 4
    assert backoff.failures(OTHER) == 0


async def test_a_heartbeat_allows_failed_requests_at_once() -> None:
    backoff = RequestBackoff(VirtualClock(), RetryDelay())
    backoff.failed(KEY)
    backoff.failed(OTHER)
    backoff.retry_failed({A1})
    assert backoff.due(KEY)
    assert not backoff.due(OTHER)
    assert backoff.failures(KEY) == 1


async def test_a_hold_after_success_ends_when_the_agent_restarts() -> None:
    backoff = RequestBackoff(VirtualClock(), RetryDelay())
    backoff.hold(KEY, 10)
    backoff.retry_failed({A1})
    assert not backoff.due(KEY)
    backoff.retry_all({A1})
    assert backoff.due(KEY)
    backoff.hold(KEY, 10)
    backoff.retry_now(KEY)
    assert backoff.due(KEY)


async def test_unused_backoff_is_forgotten() -> None:
    clock = VirtualClock()
    backoff = RequestBackoff(clock, RetryDelay())
    backoff.failed(KEY)
    await clock.advance(700)
    assert backoff.next_due_s() is None
    assert backoff.failures(KEY) == 0
    backoff.failed(KEY)
    backoff.clear()
    assert backoff.due(KEY)


class PlainBackoff:
    """The same rules, by a look at every hold."""

    def __init__(self, clock: VirtualClock, retry: RetryDelay) -> None:
        self.clock, self.retry = clock, retry
        self.holds: dict[AgentRequestKey, tuple[int, int]] = {}

    def due(self, one: AgentRequestKey) -> bool:
        return self.holds.get(one, (0, 0))[0] <= self.clock.monotonic_ms()

    def failures(self, one: AgentRequestKey) -> int:
        return self.holds.get(one, (0, 0))[1]

    def failed(self, one: AgentRequestKey) -> None:
        count = self.failures(one) + 1
        self.holds[one] = self.clock.monotonic_ms() + self.retry.delay_ms(count), count

    def hold(self, one: AgentRequestKey, seconds: float) -> None:
        self.holds[one] = self.clock.monotonic_ms() + round(seconds * 1000), 0

    def retry_now(self, one: AgentRequestKey) -> None:
        self.holds.pop(one, None)

    def retry_all(self, agents: set[AgentId]) -> None:
        self.holds = {one: hold for one, hold in self.holds.items() if one.agent_id not in agents}

    def retry_failed(self, agents: set[AgentId]) -> None:
        for one, (_, count) in self.holds.items():
            if count and one.agent_id in agents:
                self.holds[one] = self.clock.monotonic_ms(), count

    def next_due_s(self) -> float | None:
        now_ms = self.clock.monotonic_ms()
        self.holds = {one: hold for one, hold in self.holds.items() if hold[0] + 600_000 > now_ms}
        ahead = [until_ms for until_ms, _ in self.holds.values() if until_ms > now_ms]
        return (min(ahead) - now_ms) / 1000 if ahead else None


@pytest.mark.parametrize("seed", range(4))
async def test_backoff_agrees_with_the_same_rules_by_a_look_at_every_hold(seed: int) -> None:
    clock, retry, number = VirtualClock(), RetryDelay(first_ms=500, most_ms=8_000), seed
    fast, plain = RequestBackoff(clock, retry), PlainBackoff(clock, retry)
    keys = [key(f"k{subject}", agent) for subject in range(4) for agent in (A1, A2)]
    for _ in range(80):
        number = (number * 1_103_515_245 + 12_345) % 2**31  # the same numbers in every run
        one, agents, kind, wait = (
            keys[number >> 8 & 7],
            {(A1, A2)[number >> 12 & 1]},
            number >> 16 & 7,
            number >> 20 & 7,
        )
        for backoff in (fast, plain):
            match kind:
                case 0 | 1 | 2:
                    backoff.failed(one)
                case 3 | 4:
                    backoff.hold(one, 10)
                case 5:
                    backoff.retry_now(one)
                case 6:
                    backoff.retry_failed(agents)
                case _:
                    backoff.retry_all(agents)
        await clock.advance((0, 0, 0.2, 0.4, 1, 3, 9, 300)[wait])
        assert fast.next_due_s() == plain.next_due_s()
        seen = [[(backoff.due(each), backoff.failures(each)) for each in keys] for backoff in (fast, plain)]
        assert seen[0] == seen[1]


async def test_a_cycle_looks_at_no_hold_of_a_large_session_that_neither_ends_nor_failed() -> None:
    clock = VirtualClock()
    backoff = RequestBackoff(clock, RetryDelay())
    for number in range(500):
        backoff.hold(key(f"k{number}"), 10)
    looks = 0

    class Counted(dict[AgentRequestKey, Any]):
        def get(self, *arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            return super().get(*arguments)

        def __iter__(self) -> Any:
            raise AssertionError("looked at every hold")

        items = values = keys = __iter__  # all of them look at every hold

    backoff._holds = Counted(backoff._holds)
    for _ in range(20):
        backoff.retry_failed({A1})
        assert backoff.next_due_s() == 10
    assert looks == 20
