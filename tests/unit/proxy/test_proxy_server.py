"""A proxy as a whole: tables, stalls, stopping."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.serving.health import Health, HealthCounter
from sokovan.proxy import proxy_server
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.routing.ejection import CONNECT_TIMEOUT
from sokovan.proxy.routing.table_state import StaleDelta
from sokovan.wire.serving.route_table import RevisionEntry
from tests.unit.proxy.running_proxy import (
    LIMIT_S,
    SeenRequest,
    call,
    code_of,
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


async def test_requests_that_wait_for_replicas_are_refused_once_all_of_these_fail_their_checks() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        route, now_ms = proxy.context.table.routes["deployment-1"], proxy.context.now_ms()
        state = route.endpoints["k1.1"]
        await proxy.until(lambda: bool(state.health.successes))
        state.health = HealthCounter(Health.HEALTHY)
        state.ejection.broken(now_ms, CONNECT_TIMEOUT)
        waiting = asyncio.create_task(proxy.send(call()))
        await proxy.until(lambda: route.queue.length == 1)
        proxy.server.sweep()
        assert route.queue.length == 1, "it may serve soon"
        for _ in range(3):
            state.probed(now_ms, ok=False)

        answer = await waiting
        assert (status_of(answer), code_of(answer)) == (503, "no-endpoint")


async def test_requests_wait_while_a_replica_that_passes_its_checks_is_left_out() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine), revisions=(RevisionEntry(1, concurrency_max=1),)))) as proxy,
    ):
        route = proxy.context.table.routes["deployment-1"]
        state = route.endpoints["k1.1"]
        state.outstanding = 1
        waiting = asyncio.create_task(proxy.send(call()))
        await proxy.until(lambda: route.queue.length == 1)
        state.ejection.broken(proxy.context.now_ms(), "malformed-response")
        proxy.server.sweep()
        assert route.queue.length == 1
        state.outstanding = 0
        state.ejection.lift()

        assert status_of(await waiting) == 200


class HeldUpClock(SystemClock):
    """Whose sleeps take as long as scripted; then the caller is cancelled."""

    def __init__(self, *lasted_ms: int) -> None:
        self.now, self._lasted_ms = 0, list(lasted_ms)

    async def sleep(self, seconds: float) -> None:
        del seconds
        if not self._lasted_ms:
            raise asyncio.CancelledError
        self.now += self._lasted_ms.pop(0)


async def test_a_proxy_that_was_held_up_reads_what_came_before_it_ends_what_is_overdue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, swept = HeldUpClock(250, 3_000, 3_000, 250), list[int]()
    monkeypatch.setattr(ProxyContext, "now_ms", lambda _context: clock.now)
    async with proxy_with(None) as proxy:
        server = proxy_server.ProxyServer(proxy.context, clock=clock)
        monkeypatch.setattr(server, "sweep", lambda: swept.append(clock.now))
        with pytest.raises(asyncio.CancelledError):
            await server.run()
    assert swept == [250, 6_250, 6_500], "one sweep is left out, and never two in a row"


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


async def test_a_connection_that_was_kept_gets_a_last_answer_from_a_proxy_that_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_server, "KEPT_MS", 600_000)
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
