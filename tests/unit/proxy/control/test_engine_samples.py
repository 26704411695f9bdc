"""Engines are asked for their load while their deployment has requests."""

from __future__ import annotations

import asyncio

from sokovan.proxy.control.engine_samples import METRICS_MAX, sample
from sokovan.wire.serving.route_table import ProbeTerms
from tests.unit.proxy.running_proxy import (
    Answer,
    SeenRequest,
    call,
    endpoint_of,
    engines,
    json_answer,
    proxy_with,
    route_of,
    table_of,
)

TERMS = ProbeTerms(path="/health", metrics_path="/metrics", interval_ms=60_000)
COUNTS = b"toy_requests_running 2\ntoy_requests_waiting 3\n"


def raw(answer: bytes) -> Answer:
    async def respond(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    return respond


async def test_the_counts_are_read_whichever_way_the_body_ends() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (
        *(9, COUNTS[:9]),
        *(len(COUNTS) - 9, COUNTS[9:]),
    )
    until_close = raw(b"HTTP/1.1 200 OK\r\n\r\n" + COUNTS)
    async with engines(json_answer(COUNTS), raw(chunked), until_close) as some:
        assert [await sample(endpoint_of(one, probe=TERMS)) for one in some] == [(2, 3)] * 3
        assert [one.requests[0].field(b"authorization") for one in some] == [b"Bearer replica-key"] * 3


async def test_an_engine_that_does_not_say_is_left_alone() -> None:
    long = b"HTTP/1.1 200 OK\r\n\r\n" + b"#" * (METRICS_MAX + 1)
    endless = b"HTTP/1.1 200 OK\r\nx: " + b"x" * (64 << 10) + b"\r\n\r\n"
    cut = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n" + COUNTS
    mute = json_answer(COUNTS, b"404 Not Found")
    async with engines(mute, raw(b"hello\r\n\r\n"), raw(long), raw(endless), raw(cut), raw(b"")) as some:
        assert [await sample(endpoint_of(one, probe=TERMS)) for one in some] == [None] * 6


async def test_nothing_is_sent_to_a_program_that_took_the_port() -> None:
    async with engines(json_answer(COUNTS)) as (engine,):
        assert await sample(endpoint_of(engine, probe=TERMS), lambda: False) is None
        assert engine.requests == []


async def test_engines_are_asked_only_while_their_deployment_has_requests() -> None:
    held = asyncio.Event()

    async def answer(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        if request.line.startswith(b"GET /metrics"):
            await json_answer(COUNTS)(request, writer)
            return
        await held.wait()
        await json_answer()(request, writer)

    async with (
        engines(answer) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, probe=TERMS)))) as proxy,
    ):
        route = proxy.context.table.routes["deployment-1"]
        state = route.endpoints["k1.1"]
        proxy.server.sweep()
        assert engine.requests == []
        asked = asyncio.create_task(proxy.send(call()))
        await proxy.until(lambda: state.engine.waiting(proxy.context.now_ms()) == 3)
        assert state.load(proxy.context.now_ms()) == 5, "one of the five is the proxy's own"
        assert b'sokovan_proxy_engine_waiting{project="default",deployment="chat",endpoint="k1.1"} 3' in (
            proxy.context.metrics()
        )
        held.set()
        assert b"200 OK" in await asked
