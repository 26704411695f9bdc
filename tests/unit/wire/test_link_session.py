"""A link behaves correctly under any loss, delay or repetition of frames."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sokovan.wire.frames import (
    Done,
    ForgetKernel,
    Frame,
    Heartbeat,
    Hello,
    HelloRefused,
    ReportNow,
    Request,
    RequestFailed,
    Response,
    Welcome,
)
from sokovan.wire.link_session import (
    BUSY,
    AgentEnd,
    HeartbeatReceived,
    HelloReceived,
    LinkBusy,
    LinkEnded,
    LinkEstablished,
    LinkNotOpen,
    LinkOverloaded,
    LinkPhase,
    ManagerEnd,
    ManagerEvent,
    ReportRequested,
    RequestReceived,
    RequestSettled,
)

HELLO = Hello(agent_id="a1", software="1")
WELCOME = Welcome(incarnation=1, heartbeat_s=5.0)
ASK = ForgetKernel("k1", 1)
BEAT = Heartbeat(incarnation=1, sequence=1)


def manager_end(**options: int) -> ManagerEnd:
    return ManagerEnd(now_ms=0, hello_timeout_ms=1000, **options)


def opened(*, in_flight_max: int = 4) -> tuple[ManagerEnd, AgentEnd]:
    manager, agent = manager_end(in_flight_max=in_flight_max), AgentEnd(in_flight_max=in_flight_max)
    assert manager.received(agent.greet(HELLO), now_ms=0) == (HelloReceived(HELLO),)
    frame = manager.welcome(WELCOME, now_ms=0, timeout_ms=10_000)
    assert agent.received(frame, now_ms=0) == (LinkEstablished(WELCOME),)
    return manager, agent


def asked(manager: ManagerEnd, *, now_ms: int = 0, allowed_ms: int = 100) -> Request:
    return manager.request(ASK, incarnation=1, now_ms=now_ms, allowed_ms=allowed_ms)


def test_a_request_is_answered_by_its_number() -> None:
    manager, agent = opened()
    first, second = asked(manager), asked(manager)
    for request in (first, second):
        assert agent.received(request, now_ms=0) == (RequestReceived(request),)

    late = agent.answer(second.number, Done(), now_ms=1)
    assert late is not None
    assert manager.received(late, now_ms=2) == (RequestSettled(second.number, Response(second.number, Done())),)
    problem = agent.problem(first.number, "no-room", "full", now_ms=3)
    assert problem is not None
    assert manager.received(problem, now_ms=3) == (
        RequestSettled(first.number, RequestFailed(first.number, "no-room", "full")),
    )
    assert manager.expire(now_ms=101) == ()


def test_an_answer_that_comes_twice_is_heard_once() -> None:
    manager, agent = opened()
    request = asked(manager)
    agent.received(request, now_ms=0)
    answer = agent.answer(request.number, Done(), now_ms=0)
    assert answer is not None

    assert len(manager.received(answer, now_ms=0)) == 1
    assert manager.received(answer, now_ms=0) == ()
    assert agent.answer(request.number, Done(), now_ms=0) is None


def test_an_answer_after_the_deadline_is_dropped_on_both_ends() -> None:
    manager, agent = opened()
    request = asked(manager, allowed_ms=100)
    agent.received(request, now_ms=0)

    assert manager.next_due_ms == 100
    assert manager.expire(now_ms=99) == ()
    assert manager.expire(now_ms=100) == (RequestSettled(request.number, None),)
    assert manager.received(Response(request.number, Done()), now_ms=101) == ()
    assert agent.answer(request.number, Done(), now_ms=100) is None


def test_an_unsolicited_answer_is_dropped() -> None:
    manager, _ = opened()
    request = asked(manager)
    manager.abandon(request.number)

    assert manager.received(Response(request.number, Done()), now_ms=0) == ()


def test_a_request_that_comes_twice_is_done_once() -> None:
    manager, agent = opened()
    request = asked(manager)

    assert agent.received(request, now_ms=0) == (RequestReceived(request),)
    assert agent.received(request, now_ms=0) == ()


def test_no_more_requests_are_open_than_there_may_be() -> None:
    manager, _ = opened(in_flight_max=2)
    asked(manager)
    asked(manager)

    with pytest.raises(LinkBusy):
        asked(manager)
    manager.expire(now_ms=200)
    asked(manager, now_ms=200)


def test_an_agent_that_is_asked_too_much_at_once_says_so_and_recovers() -> None:
    agent = AgentEnd(in_flight_max=1)
    agent.greet(HELLO)
    agent.received(WELCOME, now_ms=0)
    first, second, third = (Request(number=number, incarnation=1, allowed_ms=50, command=ASK) for number in (1, 2, 3))

    assert agent.received(first, now_ms=0) == (RequestReceived(first),)
    [full] = agent.received(second, now_ms=1)
    assert isinstance(full, LinkOverloaded)
    assert full.problem.code == BUSY
    assert agent.received(third, now_ms=51) == (RequestReceived(third),), "what was too late takes no room"


def test_a_link_without_hello_does_not_stay() -> None:
    manager = manager_end()

    assert manager.next_due_ms == 1000
    [ended] = manager.expire(now_ms=1000)
    assert isinstance(ended, LinkEnded)
    assert manager.phase is LinkPhase.CLOSED


def test_an_agent_that_waits_for_its_welcome_is_silent_by_right() -> None:
    manager = manager_end()
    manager.received(HELLO, now_ms=0)

    assert manager.expire(now_ms=50_000) == ()
    manager.welcome(WELCOME, now_ms=50_000, timeout_ms=1000)
    assert manager.expire(now_ms=50_999) == ()
    assert len(manager.expire(now_ms=51_000)) == 1


def test_an_agent_without_heartbeats_times_out() -> None:
    manager, _ = opened()
    request = asked(manager, allowed_ms=60_000)

    assert manager.received(BEAT, now_ms=9_000) == (HeartbeatReceived(BEAT),)
    assert manager.expire(now_ms=18_999) == ()
    settled, ended = manager.expire(now_ms=19_000)
    assert settled == RequestSettled(request.number, None)
    assert isinstance(ended, LinkEnded)


def test_the_lag_of_the_manager_extends_all_deadlines() -> None:
    manager, _ = opened()
    request = asked(manager, allowed_ms=5_000)
    manager.received(BEAT, now_ms=9_000)
    manager.postpone(30_000)
    assert manager.expire(now_ms=34_999) == ()
    assert manager.expire(now_ms=35_000) == (RequestSettled(request.number, None),)
    assert manager.expire(now_ms=48_999) == ()
    [ended] = manager.expire(now_ms=49_000)
    assert isinstance(ended, LinkEnded)


def test_a_refused_agent_gets_the_reason() -> None:
    manager, agent = manager_end(), AgentEnd()
    manager.received(agent.greet(HELLO), now_ms=0)
    refusal = HelloRefused(code="superseded", message="another a1 is here", final=True)

    assert agent.received(manager.refuse(refusal), now_ms=0) == (LinkEnded("another a1 is here", refusal),)
    assert (manager.phase, agent.phase) == (LinkPhase.CLOSED, LinkPhase.CLOSED)


def test_nothing_is_asked_before_the_link_is_open_or_after_it_has_closed() -> None:
    manager = manager_end()
    with pytest.raises(LinkNotOpen):
        asked(manager)
    with pytest.raises(LinkNotOpen):
        manager.welcome(WELCOME, now_ms=0, timeout_ms=1)
    manager, agent = opened()
    manager.close("shutting down")
    with pytest.raises(LinkNotOpen):
        asked(manager)
    with pytest.raises(LinkNotOpen):
        agent.greet(HELLO)


@pytest.mark.parametrize("frame", [BEAT, WELCOME, Response(1, Done())])
def test_a_link_that_does_not_begin_with_hello_ends(frame: Frame) -> None:
    [ended] = manager_end().received(frame, now_ms=0)

    assert isinstance(ended, LinkEnded)


@pytest.mark.parametrize("frame", [HELLO, BEAT, Response(1, Done()), WELCOME])
def test_an_agent_disconnects_on_unexpected_frames(frame: Frame) -> None:
    _, agent = opened()
    [ended] = agent.received(frame, now_ms=0)

    assert isinstance(ended, LinkEnded)
    assert agent.received(BEAT, now_ms=0) == ()


def test_a_nudge_asks_for_a_heartbeat() -> None:
    _, agent = opened()

    assert agent.received(ReportNow(), now_ms=0) == (ReportRequested(),)


class Exchange(RuleBasedStateMachine):
    """Frames are lost, repeated and overtaken: each step picks any frame that was ever sent."""

    def __init__(self) -> None:
        super().__init__()
        self.manager, self.agent = opened(in_flight_max=3)
        self.now_ms = 0
        self.requests: list[Request] = []
        self.answers: list[Frame] = []
        self.settled: dict[int, Response | RequestFailed | None] = {}

    def unanswered(self) -> int:
        return len(self.requests) - len(self.settled)

    @rule()
    def ask(self) -> None:
        try:
            self.requests.append(asked(self.manager, now_ms=self.now_ms))
        except LinkBusy:
            assert self.unanswered() == 3
        except LinkNotOpen:
            phase = self.manager.phase
            assert phase is LinkPhase.CLOSED

    @precondition(lambda self: self.requests)
    @rule(which=st.integers(0, 40))
    def deliver(self, which: int) -> None:
        self.agent.received(self.requests[which % len(self.requests)], now_ms=self.now_ms)

    @rule(number=st.integers(0, 10))
    def answer(self, number: int) -> None:
        answer = self.agent.answer(number, Done(), now_ms=self.now_ms)
        self.answers.extend([answer] if answer is not None else [])

    @precondition(lambda self: self.answers)
    @rule(which=st.integers(0, 40))
    def bring_back(self, which: int) -> None:
        self.settle(self.manager.received(self.answers[which % len(self.answers)], now_ms=self.now_ms))

    @rule(passed_ms=st.integers(0, 60))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.settle(self.manager.expire(now_ms=self.now_ms))

    def settle(self, events: Iterable[ManagerEvent]) -> None:
        for event in events:
            if isinstance(event, RequestSettled):
                assert event.number not in self.settled
                assert event.outcome is None or event.outcome.number == event.number
                self.settled[event.number] = event.outcome

    @invariant()
    def few_are_open(self) -> None:
        assert self.unanswered() <= 3

    def teardown(self) -> None:
        self.settle(self.manager.close("over"))
        assert set(self.settled) == {request.number for request in self.requests}


test_every_request_is_settled_once_and_by_its_own_answer = Exchange.TestCase
