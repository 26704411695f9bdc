"""Streams that are waited for: taken up once, by the right one, or not at all."""

from __future__ import annotations

import asyncio

from sokovan.adapters.agentlink.streams import PendingStreams
from tests.unit.adapters.agentlink.lines import Pipe


async def test_a_stream_is_handed_over_and_held_until_it_is_left() -> None:
    streams, pipe = PendingStreams(), Pipe()
    call = streams.expect("secret")
    serving = asyncio.ensure_future(streams.serve(call.stream_id, pipe))
    assert await call.arrived is pipe
    assert not serving.done()
    streams.discard(call)
    await asyncio.wait_for(serving, 60)


async def test_only_the_credential_that_was_asked_may_bring_it() -> None:
    streams = PendingStreams()
    call, other = streams.expect("secret"), streams.expect("öther")
    assert call.stream_id != other.stream_id
    assert streams.is_expected(call.stream_id, "secret")
    assert streams.is_expected(other.stream_id, "öther")
    assert not streams.is_expected(call.stream_id, "öther")
    assert not streams.is_expected("", "secret")


async def test_a_discarded_stream_is_not_accepted() -> None:
    streams = PendingStreams()
    call = streams.expect("secret")
    streams.discard(call)
    assert not streams.is_expected(call.stream_id, "secret")
    await asyncio.wait_for(streams.serve(call.stream_id, Pipe()), 60)
    assert not call.arrived.done()


async def test_a_credential_is_not_shown_by_accident() -> None:
    assert "secret" not in repr(PendingStreams().expect("secret"))
