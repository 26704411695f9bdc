"""A proxy as a whole: tables, stalls, stopping."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.proxy import proxy_server
from sokovan.proxy.routing.table_state import StaleDelta
from tests.unit.proxy.running_proxy import (
    LIMIT_S,
    SeenRequest,
    call,
    endpoint_of,
    engines,
    get,
    json_answer,
    proxy_with,
    route_of,
    status_of,
    table_of,
)


async def hang(_request: SeenRequest, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def test_an_endpoint_that_is_silent_on_two_requests_is_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "STALL_MS", 100)
    async with engines(hang, json_answer()) as (stuck, good):
        first = endpoint_of(stuck, 1)
        async with proxy_with(table_of(route_of(first))) as proxy:
            waiting = [asyncio.create_task(proxy.send(call())) for _ in range(2)]
            state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
            await proxy.until(lambda: state.stalled)

            assert state.ejection.cause == "stalled"
            assert state.report(proxy.context.now_ms()).stalled
            proxy.server.apply(table_of(route_of(first, endpoint_of(good, 2)), version=2))
            assert status_of(await proxy.send(call())) == 200
            assert len(good.requests) == 1
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await proxy.until(lambda: not proxy.context.exchanges)


async def test_an_endpoint_that_drains_keeps_its_requests_and_gets_no_others() -> None:
    release = asyncio.Event()

    async def slow(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await json_answer(b'"slow"')(request, writer)

    async with (
        engines(slow, json_answer()) as (old, new),
        proxy_with(table_of(route_of(endpoint_of(old, 1)))) as proxy,
    ):
        under_way = asyncio.create_task(proxy.send(call()))
        await proxy.until(lambda: len(old.requests) == 1)
        draining = route_of(endpoint_of(old, 1, state="DRAINING"), endpoint_of(new, 2))
        proxy.server.apply(table_of(draining, version=2))
        assert status_of(await proxy.send(call())) == 200
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        assert (state.outstanding, len(new.requests)) == (1, 1)
        release.set()

        assert (await under_way).endswith(b'"slow"')
        assert state.outstanding == 0


@pytest.mark.slow
async def test_a_proxy_that_stops_ends_its_requests_first() -> None:
    release = asyncio.Event()

    async def slow(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await json_answer()(request, writer)

    async with (
        engines(slow) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        # It does not say that it closes its connection: the proxy must.
        under_way = asyncio.create_task(proxy.send(call().replace(b"Connection: close\r\n", b"")))
        await proxy.until(lambda: len(engine.requests) == 1)
        stopping = asyncio.create_task(proxy.server.drain(LIMIT_S))
        await proxy.until(lambda: proxy.context.draining)
        with pytest.raises(OSError, match=r".*"):
            await proxy.send(get("/-/health"))
        release.set()

        answer = await under_way
        assert status_of(answer) == 200
        assert b"connection: close\r\n" in answer
        await stopping


async def test_a_connection_that_was_kept_gets_a_last_answer_from_a_proxy_that_stops() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        again = call().replace(b"Connection: close\r\n", b"")
        writer.write(again)
        await reader.readuntil(b"}")
        stopping = asyncio.create_task(proxy.server.drain(LIMIT_S))
        await proxy.until(lambda: proxy.context.draining)
        writer.write(again)

        answer = await reader.read()
        assert status_of(answer) == 200
        assert b"connection: close\r\n" in answer
        await stopping
        writer.transport.abort()


async def test_a_table_that_does_not_follow_leaves_the_old_one_in_force() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        with pytest.raises(StaleDelta):
            proxy.server.apply(table_of(version=9, base=7, removed=("deployment-1",)))

        assert status_of(await proxy.send(call())) == 200
