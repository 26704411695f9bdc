"""The events of an engine, which are only a hint to look."""

from __future__ import annotations

import asyncio

from sokovan.adapters.docker.engine.events import RETRY_S, EngineEvents
from sokovan.testing.clock import VirtualClock
from tests.unit.adapters.docker.canned_engine import canned_engine


async def test_it_returns_after_a_connection_after_an_event_and_after_a_failure() -> None:
    async with canned_engine({"GET /events": (200, b'{"status": "die"}\n')}) as engine:
        clock = VirtualClock()
        events = EngineEvents(engine.client, "a=b", clock)
        for _ in range(2):  # connected, and an event
            await events.next()
        ended = asyncio.ensure_future(events.next())  # the stream ends: it waits before the next connection
        while not clock.sleeping:
            await asyncio.wait({ended}, timeout=0.01)
        await clock.advance(RETRY_S)
        await ended
        assert sum(one.startswith("GET /events") for one in engine.asked) == 1
        await events.next()
        assert sum(one.startswith("GET /events") for one in engine.asked) == 2
