"""Probes decide on health; a busy endpoint is not a sick one."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from sokovan.proxy.control.probes import probe
from sokovan.proxy.endpoint_connections import Dialler
from sokovan.wire.serving.route_table import ProbeTerms
from tests.unit.proxy.running_proxy import (
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

# Frequent probes, each of which may take long on a busy machine.
FAST = ProbeTerms(path="/ready", warming_ms=10, interval_ms=10, timeout_ms=60_000)
# For an endpoint that does not answer.
SHORT = replace(FAST, timeout_ms=100)


async def test_a_probe_needs_a_status_below_400() -> None:
    async with engines(json_answer(), json_answer(b"{}", b"503 Loading")) as (good, loading):
        assert await probe(endpoint_of(good, probe=FAST)) == ""
        assert await probe(endpoint_of(loading, probe=FAST)) == "the probe got status 503"
        assert await probe(endpoint_of(loading, probe=ProbeTerms())) == "", "TCP only"


async def test_an_endpoint_that_fails_three_probes_is_out_until_two_succeed() -> None:
    status = [b"503 Loading"]

    async def answer(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await json_answer(b"{}", status[0])(request, writer)

    async with (
        engines(answer) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, probe=FAST)))) as proxy,
    ):
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        await proxy.until(lambda: state.report(0).health == "unhealthy")
        assert status_of(await proxy.send(call())) == 503
        status[0] = b"200 OK"
        await proxy.until(lambda: state.report(0).health == "healthy")

        assert status_of(await proxy.send(call())) == 200


@pytest.mark.parametrize(("agent", "help_text"), [("", "agent.data_listen=HOST:PORT"), ("a1", "no --ca FILE")])
async def test_a_replica_that_a_proxy_elsewhere_cannot_reach_is_logged_once_with_what_helps(
    agent: str, help_text: str
) -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, probe=FAST, agent=agent)))) as proxy,
    ):
        lines: list[str] = []
        proxy.context.log, proxy.context.dialler = lines.append, Dialler(near=False)
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        await proxy.until(lambda: state.report(0).health == "unhealthy")
        assert len(lines) == 1
        assert help_text in lines[0]


@pytest.mark.slow
async def test_a_probe_that_times_out_does_not_count_while_bytes_come() -> None:
    streams: list[asyncio.StreamWriter] = []

    async def busy(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        if request.line.startswith(b"GET /ready"):
            for stream in streams:  # something comes during each probe, however long a busy machine takes for it
                stream.write(b"data: x\n\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: x\n\n")
            streams.append(writer)
        await asyncio.Event().wait()

    async with (
        engines(busy) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, probe=SHORT)))) as proxy,
    ):
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        reader, writer = await proxy.connect()
        writer.write(call(body=b'{"model":"chat","stream":true}'))
        await reader.readuntil(b"data: x")
        before = state.health.successes
        await proxy.until(lambda: state.health.successes >= before + 3)

        assert state.health.failures == 0
        writer.transport.abort()
        await proxy.until(lambda: not proxy.context.exchanges)


async def test_an_endpoint_that_comes_back_is_used_as_soon_as_a_probe_succeeds() -> None:
    async with engines(json_answer()) as (engine,):
        await engine.stop()
        slow = ProbeTerms(path="/ready", warming_ms=10, interval_ms=3_600_000)
        async with proxy_with(table_of(route_of(endpoint_of(engine, probe=slow)))) as proxy:
            assert status_of(await proxy.send(call())) == 502
            state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
            assert state.ejection.count == 1
            state.ejection.until_ms += 3_600_000
            await engine.start()
            await proxy.until(lambda: state.alive(proxy.context.now_ms()))

            assert status_of(await proxy.send(call())) == 200


async def test_an_endpoint_that_is_not_active_is_asked_for_one_token_first() -> None:
    status = [b"500 Broken"]

    async def answer(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        ready = request.line.startswith(b"GET /ready")
        await json_answer(b"{}", b"200 OK" if ready else status[0])(request, writer)
        writer.close()

    terms = replace(FAST, smoke_path="/v1/chat/completions")
    async with (
        engines(answer) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, probe=terms, state="WARMING")))) as proxy,
    ):
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        await proxy.until(lambda: state.smoke_failures >= 3)
        assert state.report(0).health != "healthy"
        assert state.report(0).last_error == "a request for one token got status 500"
        status[0] = b"200 OK"
        await proxy.until(lambda: state.report(0).health == "healthy")
        assert state.report(0).smoke_failures == 0
