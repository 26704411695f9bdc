"""One link at the manager's end, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest

from sokovan.adapters.agentlink.connection import AgentConnection, LinkLimits, LinkWatch
from sokovan.testing.clock import VirtualClock
from sokovan.wire.bundles import requests_of
from sokovan.wire.frames import (
    PROTOCOL,
    CreateKernel,
    Done,
    ForgetKernel,
    Heartbeat,
    Hello,
    HelloRefused,
    ReportNow,
    Request,
    RequestBundle,
    RequestFailed,
    Response,
    Welcome,
)
from sokovan.wire.link_codec import FRAME_BYTES_MAX, MalformedFrame
from sokovan.wire.link_session import LinkBusy, LinkNotOpen
from tests.unit.adapters.agentlink.lines import BEAT, HELLO, Line

LIMITS = LinkLimits(hello_s=3, send_s=1, request_s=2, in_flight_max=2)
WELCOME = Welcome(incarnation=1, heartbeat_s=5.0)
ASK = ForgetKernel("k1", 1)


class Rig:
    """A connection with its line and its clock."""

    def __init__(self, limits: LinkLimits = LIMITS) -> None:
        self.line, self.clock = Line(), VirtualClock()
        self.connection = AgentConnection(self.line, self.clock, limits)
        self.task = asyncio.ensure_future(self.connection.run(asyncio.Event().wait))

    async def opened(self, hello: Hello = HELLO) -> None:
        self.line.says(hello)
        assert await self.connection.hello() == hello
        await self.connection.welcome(WELCOME)
        assert await self.line.hears() == WELCOME

    def ask(self) -> asyncio.Future[Response | RequestFailed | None]:
        return asyncio.ensure_future(self.connection.request(ASK, incarnation=1, allowed_s=2))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_a_request_is_answered(rig: Rig) -> None:
    await rig.opened()
    asked = rig.ask()
    request = await rig.line.hears()
    assert isinstance(request, Request)
    rig.line.says(Response(request.number, Done()))

    assert await asked == Response(request.number, Done())


async def test_an_unanswered_request_times_out(rig: Rig) -> None:
    await rig.opened()
    asked = rig.ask()
    await rig.clock.advance(1.9)
    assert not asked.done()
    await rig.clock.advance(0.6)

    assert await asked is None
    assert rig.connection.is_open


async def test_no_more_requests_are_sent_than_may_be_open(rig: Rig) -> None:
    await rig.opened()
    waiting = [rig.ask(), rig.ask()]
    await rig.line.hears()
    with pytest.raises(LinkBusy):
        await rig.ask()
    waiting[0].cancel()
    await rig.clock.sleep(0)
    third = rig.ask()
    await rig.line.hears()

    assert not third.done()


async def test_only_the_last_unprocessed_heartbeat_is_kept(rig: Rig) -> None:
    await rig.opened()
    for sequence in range(1, 50):
        rig.line.says(Heartbeat(incarnation=1, sequence=sequence))
    await rig.clock.advance(0)

    assert (await rig.connection.heartbeat()).sequence == 49


async def test_an_agent_that_disconnects_ends_its_requests(rig: Rig) -> None:
    await rig.opened()
    asked = rig.ask()
    await rig.line.hears()
    rig.line.hangs_up()

    assert await asked is None
    await rig.task
    assert rig.connection.ended == "the agent disconnected"
    with pytest.raises(LinkNotOpen):
        await rig.ask()


async def test_an_agent_without_a_hello_is_disconnected(rig: Rig) -> None:
    await rig.clock.advance(3.5)

    await rig.task
    assert await rig.connection.hello() is None
    assert "timeout" in rig.connection.ended


async def test_an_agent_without_heartbeats_is_disconnected(rig: Rig) -> None:
    await rig.opened()
    await rig.clock.advance(14)
    rig.line.says(BEAT)
    await rig.clock.advance(14)
    assert rig.connection.is_open
    await rig.clock.advance(2)

    await rig.task
    assert "timeout" in rig.connection.ended


async def test_one_task_watches_all_links_while_there_are_any() -> None:
    clock, idle = VirtualClock(), asyncio.all_tasks()
    watch, lines = LinkWatch(clock), [Line() for _ in range(20)]
    links = [AgentConnection(line, clock, LIMITS, watch) for line in lines]
    served = [asyncio.ensure_future(link.run(asyncio.Event().wait)) for link in links]
    for line, link in zip(lines, links, strict=True):
        line.says(HELLO)
        await link.hello()
        await link.welcome(WELCOME)
    await clock.advance(0)
    assert clock.sleeping == len(links) + 1  # each waits for the answer to its ping
    for _ in range(4):
        for line in lines[1:]:
            line.says(BEAT)
        await clock.advance(5)
    assert [link.is_open for link in links] == [False] + [True] * 19
    for link in links:
        link.close("the test ends")
    await asyncio.gather(*served)
    await clock.advance(0)
    assert asyncio.all_tasks() == idle


async def test_an_agent_that_hears_nothing_is_disconnected_and_its_heartbeats_do_not_count(rig: Rig) -> None:
    await rig.opened()
    await rig.clock.advance(0)
    rig.line.answering.clear()
    await rig.clock.advance(11)
    counted = asyncio.ensure_future(rig.connection.heartbeat())
    for _ in range(2):
        rig.line.says(BEAT)
        await rig.clock.advance(4)
    assert rig.connection.is_open
    await rig.clock.advance(2)
    assert rig.connection.ended == "the agent does not hear this manager"
    assert not counted.done()
    counted.cancel()


async def test_a_late_answer_to_a_ping_lets_heartbeats_count_again(rig: Rig) -> None:
    await rig.opened()
    await rig.clock.advance(0)
    rig.line.answering.clear()
    await rig.clock.advance(11)
    rig.line.says(BEAT)
    counted = asyncio.ensure_future(rig.connection.heartbeat())
    await rig.clock.advance(1)
    assert not counted.done()
    rig.line.answering.set()
    await rig.clock.advance(0)
    assert await counted == BEAT
    for _ in range(4):
        rig.line.says(BEAT)
        await rig.clock.advance(5)
    assert rig.connection.is_open


async def test_an_agent_of_another_protocol_is_refused(rig: Rig) -> None:
    rig.line.says_bytes(bytes((PROTOCOL + 1,)) + b"whatever")
    refusal = await rig.line.hears()

    assert isinstance(refusal, HelloRefused)
    assert (refusal.code, refusal.final) == ("unknown-protocol", True)
    assert "protocol 2" in refusal.message
    await rig.task


async def test_rubbish_on_an_open_link_ends_it(rig: Rig) -> None:
    await rig.opened()
    rig.line.says_bytes(b"\x01rubbish")

    await rig.task
    assert "not a frame" in rig.connection.ended


async def test_an_agent_that_does_not_read_is_disconnected(rig: Rig) -> None:
    await rig.opened()
    rig.line.flowing.clear()
    async with asyncio.timeout(60):
        assert await rig.ask() is None
        await rig.task
    assert rig.connection.ended == "the agent does not read its connection"


async def test_a_broken_line_ends_the_link(rig: Rig) -> None:
    await rig.opened()
    rig.line.broken = True

    assert await rig.ask() is None
    await rig.task
    assert rig.connection.ended == "the line is broken"


async def test_a_heartbeat_can_be_requested(rig: Rig) -> None:
    await rig.connection.report_now()
    await rig.opened()
    await rig.connection.report_now()

    assert await rig.line.hears() == ReportNow()


async def test_what_goes_wrong_beside_the_link_is_not_hushed_up() -> None:
    connection = AgentConnection(Line(), VirtualClock(), LIMITS)

    async def breaks() -> None:
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        await connection.run(breaks)


def creation(kernel: str, text: str) -> CreateKernel:
    return CreateKernel(kernel, 1, "s1", "plain", ("true",), environment={"HOSTS": text})


async def test_requests_that_begin_together_are_sent_in_one_frame(rig: Rig) -> None:
    await rig.opened(msgspec.structs.replace(HELLO, bundles=True))
    asked = [
        asyncio.ensure_future(rig.connection.request(creation(name, "a,b"), incarnation=1, allowed_s=2))
        for name in ("k1", "k2")
    ]
    bundle = await rig.line.hears()
    assert isinstance(bundle, RequestBundle)
    assert [request.command for request in requests_of(bundle)] == [creation("k1", "a,b"), creation("k2", "a,b")]
    assert bundle.requests[0].command == msgspec.structs.replace(creation("k1", ""), environment={})
    for request in bundle.requests:
        rig.line.says(Response(request.number, Done()))
    assert await asyncio.gather(*asked) == [Response(request.number, Done()) for request in bundle.requests]


async def test_an_agent_of_an_earlier_release_gets_every_request_by_itself(rig: Rig) -> None:
    await rig.opened()
    asked = [rig.ask(), rig.ask()]
    requests = [await rig.line.hears() for _ in asked]
    assert all(isinstance(request, Request) for request in requests)


async def test_a_request_that_is_too_large_fails_alone(rig: Rig) -> None:
    await rig.opened(msgspec.structs.replace(HELLO, bundles=True))
    good, bad = [
        asyncio.ensure_future(rig.connection.request(creation("k1", text), incarnation=1, allowed_s=2))
        for text in ("a", "x" * FRAME_BYTES_MAX)
    ]
    request = await rig.line.hears()
    assert isinstance(request, Request)
    rig.line.says(Response(request.number, Done()))
    assert await good == Response(request.number, Done())
    with pytest.raises(MalformedFrame):
        await bad


@pytest.fixture
async def wide_rig() -> AsyncIterator[Rig]:
    """A connection that may have more requests open."""
    made = Rig(replace(LIMITS, in_flight_max=9, send_s=60))
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def heard_numbers(rig: Rig, count: int) -> list[int]:
    requests = [await rig.line.hears() for _ in range(count)]
    return [request.number for request in requests if isinstance(request, Request)]


async def turns(rig: Rig) -> None:
    """Let all tasks come to where they wait."""
    for _ in range(5):
        await rig.clock.sleep(0)


async def test_requests_are_sent_in_the_order_of_their_numbers_however_slow_the_line_is(wide_rig: Rig) -> None:
    await wide_rig.opened()
    wide_rig.line.flowing.clear()
    asked = [wide_rig.ask(), wide_rig.ask()]
    await turns(wide_rig)
    asked.append(wide_rig.ask())
    await turns(wide_rig)
    wide_rig.line.flowing.set()
    async with asyncio.timeout(60):
        numbers = await heard_numbers(wide_rig, len(asked))
    assert numbers == sorted(numbers)


async def test_a_request_whose_caller_leaves_takes_no_other_with_it(wide_rig: Rig) -> None:
    await wide_rig.opened()
    wide_rig.line.flowing.clear()
    first, second = wide_rig.ask(), wide_rig.ask()
    await turns(wide_rig)
    first.cancel()
    await turns(wide_rig)
    wide_rig.line.flowing.set()
    async with asyncio.timeout(60):
        number = (await heard_numbers(wide_rig, 2))[-1]
    wide_rig.line.says(Response(number, Done()))
    assert await second == Response(number, Done())
