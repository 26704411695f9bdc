"""One live link per agent, and requests over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sokovan.adapters.agentlink.connection import LinkLimits
from sokovan.adapters.agentlink.linked_agents import UNAVAILABLE, LinkedAgents
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageReport
from sokovan.ports.agent_states import AgentState
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import (
    SUPERSEDED,
    Done,
    Frame,
    Heartbeat,
    HelloRefused,
    ImageStatus,
    KernelGone,
    ReportNow,
    Request,
    RequestFailed,
    Response,
    Welcome,
)
from tests.unit.adapters.agentlink.lines import HELLO, Door, Line

A1 = AgentId("a1")
K1 = KernelId("k1")


class Rig:
    """A gateway, a door before it, and lines into it."""

    def __init__(self) -> None:
        self.clock, self.door = VirtualClock(), Door()
        self.told: list[str] = []
        self.on_heartbeat: list[AgentState] = []
        self.images: tuple[ImageReport, ...] = ()
        self.trouble: Exception | None = None
        limits = LinkLimits(request_s=2, admission_s=0.2)
        self.agents = LinkedAgents(
            self.clock, admit=self.door.admit, on_heartbeat=self._hear, limits=limits, log=self.told.append
        )
        self.links: list[asyncio.Future[str]] = []

    async def _hear(self, _agent_id: AgentId, state: AgentState, images: tuple[ImageReport, ...]) -> None:
        self.on_heartbeat.append(state)
        self.images = images
        if self.trouble is not None:
            raise self.trouble

    async def dials(self) -> tuple[Line, Frame, asyncio.Future[str]]:
        """Connect an agent; its connection, the first answer, and the end of the link."""
        line = Line()
        link = asyncio.ensure_future(self.agents.serve(line, "token"))
        self.links.append(link)
        line.says(HELLO)
        return line, await line.hears(), link

    def stops(self) -> asyncio.Future[GoneProof]:
        return asyncio.ensure_future(self.agents.stop_kernel(A1, 1, K1, 1, grace_s=1.0))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    made.agents.close()
    for link in made.links:
        link.cancel()
    await asyncio.gather(*made.links, return_exceptions=True)


async def answered(line: Line, reply: Done | KernelGone | RequestFailed) -> Request:
    request = await line.hears()
    assert isinstance(request, Request)
    line.says(
        RequestFailed(request.number, reply.code, reply.message)
        if isinstance(reply, RequestFailed)
        else Response(request.number, reply)
    )
    return request


async def test_an_admitted_agent_is_connected_until_it_disconnects(rig: Rig) -> None:
    assert not rig.agents.connected(A1)
    line, word, link = await rig.dials()
    assert word == Welcome(incarnation=1, heartbeat_s=5.0)
    assert rig.agents.connected(A1)
    assert rig.agents.incarnation(A1) == 1
    assert rig.door.tokens == ["token"]
    line.hangs_up()

    assert await link == "the agent disconnected"
    assert not rig.agents.connected(A1)
    assert rig.agents.incarnation(A1) == 0


async def test_a_refused_agent_gets_the_reason_and_has_no_link(rig: Rig) -> None:
    rig.door.verdict = HelloRefused(code="unauthorized", message="no", final=True)
    _, word, link = await rig.dials()

    assert word == rig.door.verdict
    assert await link == "no"
    assert not rig.agents.connected(A1)


async def test_a_door_that_breaks_or_hangs_is_not_a_refusal_for_good(rig: Rig) -> None:
    rig.door.open.clear()
    _, word, _ = await rig.dials()

    assert isinstance(word, HelloRefused)
    assert (word.code, word.final) == (UNAVAILABLE, False)
    assert "could not be admitted" in rig.told[0]


async def test_heartbeats_are_heard_with_everything_in_them(rig: Rig) -> None:
    line, _, _ = await rig.dials()
    line.says(Heartbeat(incarnation=1, sequence=1, images=(ImageStatus("python", "ready"),), load={"load_milli": 5}))
    await rig.clock.advance(0)

    assert [(state.agent_id, state.sequence, state.load) for state in rig.on_heartbeat] == [
        ("a1", 1, {"load_milli": 5})
    ]
    assert [report.image for report in rig.images] == ["python"]


async def test_a_heartbeat_from_before_the_welcome_is_not_heard(rig: Rig) -> None:
    rig.door.incarnation = 7
    line, _, _ = await rig.dials()
    line.says(Heartbeat(incarnation=6, sequence=1))
    await rig.clock.advance(0)
    line.says(Heartbeat(incarnation=7, sequence=2))
    await rig.clock.advance(0)

    assert [state.incarnation for state in rig.on_heartbeat] == [7]


async def test_an_agent_that_another_manager_has_enrolled_anew_is_heard(rig: Rig) -> None:
    line, _, _ = await rig.dials()
    line.says(Heartbeat(incarnation=2, sequence=1))
    await rig.clock.advance(0)

    assert rig.agents.incarnation(A1) == 2


async def test_a_heartbeat_that_could_not_be_kept_does_not_end_the_link(rig: Rig) -> None:
    rig.trouble = RuntimeError("the store is away")
    line, _, _ = await rig.dials()
    line.says(Heartbeat(incarnation=1, sequence=1))
    await rig.clock.advance(0)
    rig.trouble = None
    line.says(Heartbeat(incarnation=1, sequence=2))
    await rig.clock.advance(0)

    assert [state.sequence for state in rig.on_heartbeat] == [1, 2]
    assert "was lost" in rig.told[0]


async def test_a_later_incarnation_takes_the_place_of_an_earlier_one(rig: Rig) -> None:
    _, _, first = await rig.dials()
    rig.door.incarnation = 2
    line, _, _ = await rig.dials()

    assert "superseded by" in await first
    assert rig.agents.incarnation(A1) == 2
    stopping = rig.stops()
    await answered(line, KernelGone(gone=True))
    assert (await stopping).gone


async def test_the_same_incarnation_on_a_new_link_takes_the_place_of_its_old_link(rig: Rig) -> None:
    _, _, first = await rig.dials()
    await rig.dials()

    assert "superseded by" in await first
    assert rig.agents.connected(A1)


async def test_an_earlier_incarnation_is_refused_while_a_later_one_is_here(rig: Rig) -> None:
    rig.door.incarnation = 5
    await rig.dials()
    rig.door.incarnation = 4
    _, word, _ = await rig.dials()

    assert isinstance(word, HelloRefused)
    assert (word.code, word.final) == (SUPERSEDED, True)
    assert rig.agents.incarnation(A1) == 5


async def test_requests_and_answers_find_each_other(rig: Rig) -> None:
    line, _, _ = await rig.dials()
    stopping = rig.stops()
    request = await answered(line, KernelGone(gone=True, exit_code=3))
    assert (request.incarnation, request.allowed_ms) == (1, 2000)

    assert await stopping == GoneProof(gone=True, exit_code=3)


async def test_a_refusal_of_the_agent_has_its_code_and_message(rig: Rig) -> None:
    line, _, _ = await rig.dials()
    stopping = rig.stops()
    await answered(line, RequestFailed(0, "no-room", "not enough cpu"))

    with pytest.raises(AgentRefused, match=r"not enough cpu \[no-room\]"):
        await stopping


@pytest.mark.parametrize("reply", [RequestFailed(0, "busy", "256 requests are open"), Done()])
async def test_an_agent_that_is_too_busy_or_talks_nonsense_may_be_asked_again(
    rig: Rig, reply: RequestFailed | Done
) -> None:
    line, _, _ = await rig.dials()
    stopping = rig.stops()
    await answered(line, reply)

    with pytest.raises(AgentUnreachable):
        await stopping


async def test_an_agent_that_does_not_answer_in_time_is_unreachable(rig: Rig) -> None:
    await rig.dials()
    stopping = rig.stops()
    await rig.clock.advance(3)

    with pytest.raises(AgentUnreachable, match="did not answer in time"):
        await stopping


async def test_requests_end_with_the_link(rig: Rig) -> None:
    line, _, _ = await rig.dials()
    stopping = rig.stops()
    await line.hears()
    rig.agents.close()

    with pytest.raises(AgentUnreachable, match="the manager is shutting down"):
        await stopping


async def test_a_heartbeat_is_requested_over_a_link(rig: Rig) -> None:
    await rig.agents.report_now(A1)
    line, _, _ = await rig.dials()
    await rig.agents.report_now(A1)

    assert await line.hears() == ReportNow()
