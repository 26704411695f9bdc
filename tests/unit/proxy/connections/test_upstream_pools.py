"""Connections to endpoints are used again while that is safe."""

from __future__ import annotations

import asyncio
from typing import Any

from sokovan.proxy.connections.upstream_connection import UpstreamConnection
from sokovan.proxy.connections.upstream_pools import FOREIGN, IDLE_MS_MAX, UpstreamPools
from sokovan.proxy.routing.endpoint_state import EndpointState
from tests.unit.proxy.running_proxy import Engine, endpoint_of, engines, json_answer


async def connected(pools: UpstreamPools, endpoint: EndpointState) -> UpstreamConnection:
    found: asyncio.Future[UpstreamConnection | None] = asyncio.get_running_loop().create_future()
    pools.connect(endpoint, lambda connection, _cause: found.set_result(connection))
    connection = await found
    assert connection is not None
    return connection


def state_of(engine: Engine, **changes: Any) -> EndpointState:
    return EndpointState(endpoint_of(engine, **changes), concurrency_max=4)


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
        pools.connect(state_of(engine), lambda _connection, cause: causes.put_nowait(cause))

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
        pools.connect(endpoint, lambda connection, cause: causes.put_nowait(cause if connection is None else "sent"))
        assert await causes.get() == FOREIGN
        pools.close()
        assert not engine.requests
