"""Connections to endpoints are used again while that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.serving.health import Health, HealthCounter
from sokovan.proxy.connections.upstream_connection import UpstreamConnection
from sokovan.proxy.connections.upstream_pools import FOREIGN, IDLE_MS_MAX, UpstreamPools
from sokovan.proxy.endpoint_connections import Dialler, P
from sokovan.proxy.routing import connection_time
from sokovan.proxy.routing.ejection import CONNECT_TIMEOUT
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.wire.serving.route_table import EndpointEntry, RouteLimits
from tests.unit.proxy.running_proxy import (
    Engine,
    call,
    code_of,
    endpoint_of,
    engines,
    json_answer,
    proxy_with,
    route_of,
    status_of,
    table_of,
)


async def connected(pools: UpstreamPools, endpoint: EndpointState) -> UpstreamConnection:
    found: asyncio.Future[UpstreamConnection | None] = asyncio.get_running_loop().create_future()
    pools.connect(endpoint, lambda connection, _cause: found.set_result(connection), left_ms=0)
    connection = await found
    assert connection is not None
    return connection


def state_of(engine: Engine, **changes: Any) -> EndpointState:
    return EndpointState(endpoint_of(engine, **changes), concurrency_max=4)


class LateDialler(Dialler):
    """Its first connections are not open in time."""

    def __init__(self, late: int, *, after_s: float = 0.0) -> None:
        super().__init__()
        self.late, self._after_s = late, after_s

    async def connect(self, entry: EndpointEntry, factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        self.late -= 1
        if self.late >= 0:
            await SystemClock().sleep(self._after_s)
            raise TimeoutError
        return await super().connect(entry, factory)


async def test_a_request_goes_on_after_more_late_connections_than_it_has_tries() -> None:
    async with engines(json_answer(), json_answer()) as (first, second):
        table = table_of(route_of(endpoint_of(first, 1), endpoint_of(second, 2)))
        async with proxy_with(table) as proxy:
            proxy.server._pools._dialler = dialler = LateDialler(4)

            assert status_of(await proxy.send(call())) == 200
            assert dialler.late == -1


async def test_a_request_goes_on_after_late_connections_to_the_only_endpoint() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        await proxy.until(lambda: bool(state.health.successes))
        state.health = HealthCounter(Health.HEALTHY)
        proxy.server._pools._dialler = dialler = LateDialler(2)

        assert status_of(await proxy.send(call())) == 200
        assert dialler.late == -1


class SlowDialler(Dialler):
    """Its connections are open after a time; those that are given up before that are counted."""

    def __init__(self, after_s: float) -> None:
        super().__init__()
        self.given_up, self._after_s = 0, after_s

    async def connect(self, entry: EndpointEntry, factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        try:
            await SystemClock().sleep(self._after_s)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return await super().connect(entry, factory)


async def test_connections_get_more_time_once_one_was_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_time, "FIRST_MS", 150)
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        proxy.server._pools._dialler = dialler = SlowDialler(0.2)

        assert status_of(await proxy.send(call())) == 200
        assert 1 <= dialler.given_up <= 2


@pytest.mark.parametrize("count", [1, 2])
async def test_late_connections_do_not_lengthen_the_wait_of_a_request(count: int) -> None:
    limits = RouteLimits(queue_wait_ms=2_000)
    async with engines(*[json_answer()] * count) as started:
        endpoints = [endpoint_of(engine, number) for number, engine in enumerate(started)]
        async with proxy_with(table_of(route_of(*endpoints, limits=limits))) as proxy:
            states = proxy.context.table.routes["deployment-1"].endpoints.values()
            await proxy.until(lambda: all(one.health.successes for one in states))
            for one in states:
                one.health = HealthCounter(Health.HEALTHY)
            proxy.server._pools._dialler = LateDialler(1_000, after_s=0.05)
            sent = asyncio.create_task(proxy.send(call()))
            await proxy.until(lambda: any(one.queued for one in proxy.context.exchanges))
            [exchange] = proxy.context.exchanges

            assert exchange.deadline_ms == exchange.begun_ms + 2_000
            answer = await sent
            assert (status_of(answer), code_of(answer)) in {(503, "queue-timeout"), (504, CONNECT_TIMEOUT)}


async def test_an_idle_connection_is_used_again_until_it_is_too_old() -> None:
    async with engines(json_answer()) as (engine,):
        pools, endpoint = UpstreamPools(asyncio.get_running_loop()), state_of(engine)
        connection = await connected(pools, endpoint)
        pools.give(endpoint, connection, 1_000)

        assert pools.take(endpoint, 1_001) is connection
        assert connection.reused
        pools.give(endpoint, connection, 1_000)
        assert pools.take(endpoint, 1_000 + IDLE_MS_MAX) is None
        assert connection.transport.is_closing()
        pools.close()


async def test_connections_of_endpoints_that_are_gone_or_drained_are_closed() -> None:
    async with engines(json_answer()) as (engine,):
        pools, endpoint = UpstreamPools(asyncio.get_running_loop()), state_of(engine)
        kept = await connected(pools, endpoint)
        pools.give(endpoint, kept, 1_000)
        pools.close_idle(1_001, lambda _endpoint_id: True)
        assert not kept.transport.is_closing()
        pools.close_idle(1_001, lambda _endpoint_id: False)
        assert kept.transport.is_closing()

        drained = state_of(engine, state="DRAINING")
        other = await connected(pools, drained)
        pools.give(drained, other, 1_000)
        assert other.transport.is_closing()


async def test_a_refused_connection_has_a_cause() -> None:
    async with engines(json_answer()) as (engine,):
        await engine.stop()
        causes: asyncio.Queue[str] = asyncio.Queue()
        pools = UpstreamPools(asyncio.get_running_loop())
        pools.connect(state_of(engine), lambda _connection, cause: causes.put_nowait(cause), left_ms=0)

        assert await causes.get() == "refused"


async def test_a_connection_whose_last_client_was_slow_is_read_again() -> None:
    async with engines(json_answer()) as (engine,):
        pools, endpoint = UpstreamPools(asyncio.get_running_loop()), state_of(engine)
        connection = await connected(pools, endpoint)
        connection.transport.pause_reading()
        pools.give(endpoint, connection, 1_000)

        assert connection.transport.is_reading()
        pools.close()


async def test_nothing_is_sent_to_another_program_at_the_port_of_an_endpoint() -> None:
    async with engines(json_answer()) as (engine,):
        endpoint, causes = state_of(engine), asyncio.Queue[str]()
        numbers = [frozenset({7})]
        pools = UpstreamPools(asyncio.get_running_loop(), lambda _port: numbers[0])
        (await connected(pools, endpoint)).abandon()
        numbers[0] = frozenset({8})
        pools.connect(
            endpoint, lambda connection, cause: causes.put_nowait(cause if connection is None else "sent"), left_ms=0
        )
        assert await causes.get() == FOREIGN
        pools.close()
        assert not engine.requests
