"""Requests under load while endpoints refuse, break and hang; none fails that need not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from functools import partial

import pytest

from sokovan.wire.serving.route_table import RevisionEntry, RouteLimits
from tests.unit.proxy.running_proxy import (
    Engine,
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

pytestmark = pytest.mark.slow
REQUESTS, AT_ONCE = 200, 20


def reached(engine: Engine, count: int, tasks: Iterable[asyncio.Task[bytes]]) -> bool:
    """Whether the engine got one more request, or will not."""
    return len(engine.requests) > count or all(task.done() for task in tasks)


async def all_of(sends: Iterable[asyncio.Task[bytes]]) -> list[int]:
    return [status_of(answer) for answer in await asyncio.gather(*sends)]


async def test_no_request_fails_while_one_endpoint_of_three_comes_and_goes() -> None:
    async with engines(json_answer(), json_answer(), json_answer()) as made:
        flapping: Engine = made[0]
        table = table_of(route_of(*(endpoint_of(engine, number) for number, engine in enumerate(made, 1))))
        async with proxy_with(table) as proxy:
            found: list[int] = []
            for turn in range(REQUESTS // AT_ONCE):
                under_way = [asyncio.create_task(proxy.send(call())) for _ in range(AT_ONCE)]
                count = len(flapping.requests)
                if turn % 2:
                    await flapping.start()
                else:
                    await proxy.until(partial(reached, flapping, count, under_way))
                    await flapping.stop()
                found += await all_of(under_way)

            assert set(found) == {200}
            assert sum(one.outstanding for one in proxy.context.table.routes["deployment-1"].endpoints.values()) == 0
            assert proxy.context.held_bytes == 0


async def test_requests_at_an_endpoint_that_hangs_are_answered_by_others() -> None:
    async def hang(_request: SeenRequest, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with engines(hang, json_answer(), json_answer()) as made:
        entries = [endpoint_of(engine, number) for number, engine in enumerate(made, 1)]
        limits = RouteLimits(first_byte_ms=1_000)
        async with proxy_with(table_of(route_of(*entries, limits=limits))) as proxy:
            found: list[int] = []
            # A few at a time: on a busy machine too each is answered within the limit.
            for _ in range(1 + REQUESTS // AT_ONCE):
                found += await all_of(asyncio.create_task(proxy.send(call())) for _ in range(AT_ONCE))

            failed = sum(status != 200 for status in found)
            # Retries are a fifth of the requests at most: those at first at the endpoint may go beyond.
            assert failed <= AT_ONCE // 3
            stuck = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
            assert stuck.ejection.count >= 1
            assert stuck.outstanding == 0


async def test_held_requests_leave_no_faster_than_the_first_replica_takes_them() -> None:
    most = now = 0

    async def counted(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        now -= 1
        await json_answer()(request, writer)

    async with engines(counted) as (engine,), proxy_with(table_of(route_of(holding=True))) as proxy:
        held = [asyncio.create_task(proxy.send(call())) for _ in range(50)]
        await proxy.until(lambda: proxy.context.table.routes["deployment-1"].queue.length == 50)
        assert not engine.requests
        revisions = (RevisionEntry(1, concurrency_max=4),)
        proxy.server.apply(table_of(route_of(endpoint_of(engine), revisions=revisions), version=2))

        assert set(await all_of(held)) == {200}
        assert most <= 4
        assert len(engine.requests) == 50


async def test_usage_is_that_of_the_engine_though_some_clients_leave_early() -> None:
    given = made = 0

    async def counting(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal given, made
        body = json.loads(request.body)
        given, made = given + 3, made + 4
        if body.get("stream"):
            event = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event))
        else:
            await json_answer(b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}')(request, writer)

    async def one(number: int, port: int) -> None:
        body = b'{"model":"chat","stream":true}' if number % 3 == 0 else b'{"model":"chat"}'
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(call(body=body))
            if number % 10 == 0:
                await writer.drain()  # the client leaves; the engine may have answered or not
            else:
                await reader.read()
        finally:
            writer.transport.abort()

    async with engines(counting) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        for start in range(0, REQUESTS, AT_ONCE):
            await asyncio.gather(*(one(number, proxy.port) for number in range(start, start + AT_ONCE)))
        await proxy.until(lambda: not proxy.context.exchanges)
        proxy.context.ledger.close()
        usage = proxy.context.ledger.unsent()

        requests = sum(entry.requests for entry in usage)
        unknown = sum(entry.failed + entry.estimated_requests for entry in usage)
        assert len(engine.requests) <= requests <= REQUESTS
        assert unknown <= REQUESTS // 10
        exact = sum(entry.input_tokens for entry in usage)
        assert given - 3 * unknown <= exact <= given
        assert sum(entry.output_tokens for entry in usage) == exact // 3 * 4
