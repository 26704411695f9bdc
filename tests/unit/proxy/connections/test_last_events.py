"""What engines send after their client has left: counted, and for a short time only."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.proxy.connections import last_events
from sokovan.wire.serving.proxy_reports import UsageEntry
from tests.unit.proxy.running_proxy import (
    LIMIT_S,
    RunningProxy,
    SeenRequest,
    call,
    endpoint_of,
    engines,
    proxy_with,
    route_of,
    table_of,
)

STREAM = b'{"model":"chat","stream":true}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(number: int) -> bytes:
    """An event with the usage so far; several tokens may be in one."""
    text = b'data: {"choices":[{"index":0}],"usage":{"prompt_tokens":7,"completion_tokens":%d}}\n\n' % number
    return b"%x\r\n%b\r\n" % (len(text), text)


async def leave(proxy: RunningProxy) -> None:
    """Leave after the first event."""
    reader, writer = await proxy.connect()
    writer.write(call(body=STREAM))
    async with asyncio.timeout(LIMIT_S):
        assert b"usage" not in await reader.readuntil(b"data: {")
    writer.transport.abort()


async def usage_of(proxy: RunningProxy) -> UsageEntry:
    await proxy.until(lambda: not proxy.context.exchanges and not proxy.context.leaving)
    proxy.context.ledger.close()
    [found] = proxy.context.ledger.unsent()
    return found


async def test_what_an_engine_made_until_it_noticed_is_counted_exactly() -> None:
    async def engine_of(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + event(3))
        await request.reader.read()  # the end: the client has left
        writer.write(event(5) + event(9))
        writer.close()
        await writer.wait_closed()

    async with (
        engines(engine_of) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, event_usage="usage")))) as proxy,
    ):
        await leave(proxy)
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        found = await usage_of(proxy)

        assert (found.input_tokens, found.output_tokens) == (7, 9)
        assert (found.requests, found.estimated_requests, found.failed) == (1, 0, 0)
        assert state.outstanding == 0
        assert state.ejection.count == 0, "the engine has done what it was told"


async def test_an_engine_that_takes_no_notice_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_events, "NOTICE_S", 0.05)

    async def deaf(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + event(3))
        await asyncio.Event().wait()

    async with (
        engines(deaf) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, event_usage="usage")))) as proxy,
    ):
        await leave(proxy)
        found = await usage_of(proxy)

        assert (found.input_tokens, found.output_tokens, found.estimated_requests) == (7, 3, 0)


async def test_without_usage_in_its_events_a_stream_is_estimated_by_their_number() -> None:
    async def silent(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        text = b'data: {"choices":[{"index":0}]}\n\n'
        one = b"%x\r\n%b\r\n" % (len(text), text)
        writer.write(HEAD + one)
        await request.reader.read()
        writer.write(one * 2)
        writer.close()
        await writer.wait_closed()

    async with engines(silent) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        await leave(proxy)
        found = await usage_of(proxy)

        assert (found.requests, found.estimated_requests) == (1, 1)
        # The prompt by four bytes a token, and three events.
        assert found.estimated_tokens == len(STREAM) // 4 + 3


async def test_a_proxy_that_stops_counts_what_has_come_so_far() -> None:
    async def deaf(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + event(3))
        await asyncio.Event().wait()

    async with (
        engines(deaf) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, event_usage="usage")))) as proxy,
    ):
        await leave(proxy)
        await proxy.until(lambda: bool(proxy.context.leaving))
        proxy.server.close()
        found = await usage_of(proxy)

        assert (found.input_tokens, found.output_tokens) == (7, 3)
