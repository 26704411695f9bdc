"""Requests beside the rounds: bounded, never twice at a time, never waited for in vain."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AgentId
from sokovan.orchestrator.agent_requests import AgentRequestLimits, AgentRequests, Notify, said
from sokovan.orchestrator.handler import DeadlinePassed, WorkCancelled
from sokovan.orchestrator.request_backoff import AgentRequestKey
from sokovan.testing.clock import VirtualClock

A1, A2 = AgentId("a1"), AgentId("a2")


def key(subject: str, agent_id: AgentId = A1) -> AgentRequestKey:
    return AgentRequestKey("stop", agent_id, subject)


class Desk:
    """Errands, and doors that stay closed until they are opened."""

    def __init__(self) -> None:
        self.clock, self.woken, self.running = VirtualClock(), 0, 0
        limits = AgentRequestLimits(at_a_time=3, per_agent=2, deadline_s=10, patience_s=0.05)
        self.errands = AgentRequests(self.clock, wake=self.wake, limits=limits)
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
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    await made.errands.close()


async def settled(desk: Desk) -> None:
    waiting = asyncio.ensure_future(desk.errands.settle())
    await desk.clock.advance(0.1)
    await waiting


async def test_a_quick_answer_is_there_after_a_moment_and_wakes_nobody(desk: Desk) -> None:
    assert desk.errands.begin(key("k1"), desk.quick)
    await settled(desk)
    [answer] = desk.errands.take("stop")
    assert (answer.key, answer.word, answer.error) == (key("k1"), "done", None)
    assert desk.errands.take("stop") == []
    assert desk.woken == 0


async def test_a_slow_answer_is_not_waited_for_and_wakes_the_next_round(desk: Desk) -> None:
    desk.errands.begin(key("k1"), desk.slow)
    await settled(desk)
    assert desk.errands.take("stop") == []
    assert desk.errands.under_way == 1
    desk.door.set()
    await desk.clock.advance(0)
    assert desk.woken == 1
    assert desk.errands.waiting == 1


async def test_nothing_is_asked_twice_at_a_time(desk: Desk) -> None:
    assert desk.errands.begin(key("k1"), desk.slow)
    assert not desk.errands.begin(key("k1"), desk.slow)
    desk.door.set()
    await settled(desk)
    assert desk.errands.begin(key("k1"), desk.quick)


async def test_one_agent_does_not_take_everybodys_turn(desk: Desk) -> None:
    for subject in ("k1", "k2", "k3", "k4"):
        desk.errands.begin(key(subject), desk.slow)
    desk.errands.begin(key("k5", A2), desk.quick)
    await settled(desk)
    assert desk.running == 2
    assert [answer.key for answer in desk.errands.take("stop")] == [key("k5", A2)]


async def test_a_request_that_hangs_ends_at_its_deadline(desk: Desk) -> None:
    desk.errands.begin(key("k1"), desk.slow)
    await desk.clock.advance(10.1)
    [answer] = desk.errands.take("stop")
    assert isinstance(answer.error, DeadlinePassed)
    assert not desk.errands.begin(key("k1"), desk.quick)
    await desk.clock.advance(1)
    assert desk.errands.begin(key("k1"), desk.quick)


async def test_answers_that_nobody_waits_for_are_dropped(desk: Desk) -> None:
    desk.errands.begin(key("k1"), desk.quick, tell=Notify.FAILURES, rest_s=5)
    desk.errands.begin(key("k2"), desk.failing, tell=Notify.FAILURES)
    desk.errands.begin(key("k3", A2), desk.failing, tell=Notify.NOTHING)
    await settled(desk)
    assert [answer.key for answer in desk.errands.take("stop")] == [key("k2")]
    assert not desk.errands.pauses.due(key("k1"))


async def test_closing_gives_everything_up(desk: Desk) -> None:
    desk.errands.begin(key("k1"), desk.slow)
    await desk.clock.advance(0)
    await desk.errands.close()
    assert (desk.errands.under_way, desk.errands.waiting) == (0, 0)
    assert desk.errands.begin(key("k1"), desk.quick)


def test_errors_have_a_code_and_words() -> None:
    assert said(Conflict("in the way")) == ("conflict", "in the way")
    assert said(ValueError("bad")) == ("internal", "ValueError: bad")


async def test_work_that_cancels_itself_has_failed_and_can_be_asked_again(desk: Desk) -> None:
    async def cancels_itself() -> str:
        raise asyncio.CancelledError

    desk.errands.begin(key("k1"), cancels_itself)
    await settled(desk)
    [answer] = desk.errands.take("stop")
    assert isinstance(answer.error, WorkCancelled)
    assert desk.errands.under_way == 0
    await desk.clock.advance(1)
    assert desk.errands.begin(key("k1"), desk.quick)


async def test_a_few_agents_that_hang_leave_room_for_the_others() -> None:
    desk = Desk()
    desk.errands = AgentRequests(desk.clock, wake=desk.wake)
    for agent in range(8):
        for subject in range(20):
            desk.errands.begin(key(f"k{agent}.{subject}", AgentId(f"a{agent}")), desk.slow)
    desk.errands.begin(key("k", AgentId("b")), desk.quick)
    await settled(desk)
    assert [answer.key.subject for answer in desk.errands.take("stop")] == ["k"]
    await desk.errands.close()
