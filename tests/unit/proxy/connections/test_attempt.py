"""Load is counted before sending and released on every path."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.wire.serving.route_table import RouteLimits
from tests.unit.proxy.running_proxy import (
    Answer,
    SeenRequest,
    call,
    endpoint_of,
    engines,
    json_answer,
    proxy_with,
    route_of,
    status_of,
    table_of,
)


async def reset(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def hang(_request: SeenRequest, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def silent(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n")
    await asyncio.Event().wait()


@pytest.mark.parametrize("answer", [json_answer(), json_answer(b"{}", b"500 Oops"), reset, hang, silent])
async def test_the_place_is_returned_however_the_try_ends(answer: Answer) -> None:
    limits = RouteLimits(first_byte_ms=50, silence_ms=50, queue_wait_ms=50)
    async with (
        engines(answer) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine), limits=limits))) as proxy,
    ):
        assert (await proxy.send(call())).startswith(b"HTTP/1.1 ")
        await proxy.until(lambda: not proxy.context.exchanges)

        route = proxy.context.table.routes["deployment-1"]
        assert route.endpoints["k1.1"].outstanding == 0
        assert route.in_flight == 0
        assert route.endpoints["k1.1"].served == 1


async def test_an_answer_of_500_is_a_failure_of_its_revision_and_ejects_nothing() -> None:
    async with (
        engines(json_answer(b"{}", b"500 Oops")) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        assert (await proxy.send(call())).startswith(b"HTTP/1.1 500")
        await proxy.until(lambda: not proxy.context.exchanges)
        route = proxy.context.table.routes["deployment-1"]
        assert sum(one.failed for one in route.counters.values()) == 1
        assert not route.endpoints["k1.1"].last_error


async def test_an_idle_connection_that_was_closed_is_replaced_without_blame() -> None:
    async def once(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await json_answer()(request, writer)
        writer.transport.abort()

    async with (
        engines(once) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        answers = [await proxy.send(call()) for _ in range(10)]

        assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
        assert proxy.context.table.routes["deployment-1"].endpoints["k1.1"].ejection.count == 0


async def test_an_engine_that_is_full_is_passed_on_once_no_retry_is_left() -> None:
    async with (
        engines(json_answer(b'{"e":1}', b"429 Too Many")) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        while proxy.context.retries.spend():
            pass

        assert status_of(await proxy.send(call())) == 429
