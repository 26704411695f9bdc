"""Measurements over links: only agents that know the request receive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable
from sokovan.ports.agent_states import AgentState
from sokovan.ports.runtime import KernelUse
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import MeasureKernel, Request, Response, UseFigures
from tests.unit.adapters.agentlink.lines import HELLO, Door, Line

A1, K1 = AgentId("a1"), KernelId("k1")


async def _unheard(_agent_id: AgentId, _state: AgentState, _images: object) -> None:
    """Heartbeats do not matter here."""


@asynccontextmanager
async def linked(*, measures: bool) -> AsyncIterator[tuple[LinkedAgents, Line]]:
    """A gateway with one agent."""
    agents, line = LinkedAgents(VirtualClock(), admit=Door().admit, on_heartbeat=_unheard), Line()
    link = asyncio.ensure_future(agents.serve(line, "token"))
    line.says(replace(HELLO, measures=measures))
    await line.hears()
    try:
        yield agents, line
    finally:
        agents.close()
        await asyncio.gather(link, return_exceptions=True)


async def test_an_agent_answers_with_the_figures_that_it_has() -> None:
    async with linked(measures=True) as (agents, line):
        measuring = asyncio.ensure_future(agents.measure(A1, K1, 2))
        request = await line.hears()
        assert isinstance(request, Request)
        assert (request.command, request.incarnation) == (MeasureKernel("k1", 2), 0)
        line.says(Response(request.number, UseFigures(7, cpu_ms=1500, processes=3)))
        assert await measuring == KernelUse(7, cpu_ms=1500, memory_bytes=None, processes=3)


async def test_an_agent_of_an_earlier_release_is_not_asked_as_it_would_end_its_link() -> None:
    async with linked(measures=False) as (agents, _):
        with pytest.raises(AgentRefused, match="upgrade"):
            await agents.measure(A1, K1, 1)
        assert agents.connected(A1)


async def test_an_agent_without_a_link_is_unreachable() -> None:
    async with linked(measures=True) as (agents, _):
        with pytest.raises(AgentUnreachable):
            await agents.measure(AgentId("nobody"), K1, 1)
