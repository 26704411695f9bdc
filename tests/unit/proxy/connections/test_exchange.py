"""Requests through a proxy to endpoints on real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from sokovan.proxy.connections.exchange import Exchange
from sokovan.proxy.routing.retries import BODY_KEPT_MAX
from sokovan.wire.serving.route_table import KeyLimits, RevisionEntry, RouteLimits, RouteRefusal
from tests.unit.proxy.running_proxy import (
    KEY,
    SeenRequest,
    body_of,
    call,
    code_of,
    endpoint_of,
    engines,
    get,
    json_answer,
    key_of,
    proxy_with,
    route_of,
    status_of,
    stream_answer,
    table_of,
)

USAGE = b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}'
ONE = (RevisionEntry(1, concurrency_max=1),)


def upstream_reads(exchange: Exchange) -> bool:
    connection = exchange.attempt.connection if exchange.attempt else None
    return connection is None or connection.transport.is_reading()


async def hang(_request: SeenRequest, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def test_a_call_reaches_the_endpoint_with_its_own_key_and_is_accounted() -> None:
    async with (
        engines(json_answer(USAGE)) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine, upstream_model="engine-name")))) as proxy,
    ):
        answer = await proxy.send(call(body=b'{"model":"chat","messages":[1.50]}'))

        assert (status_of(answer), body_of(answer)) == (200, USAGE)
        [request] = engine.requests
        assert json.loads(request.body) == {"model": "engine-name", "messages": [1.5]}
        assert b"1.50" in request.body, "the rest of the body is passed on as it came"
        assert request.field(b"authorization") == b"Bearer replica-key"
        assert KEY not in request.head
        proxy.context.ledger.close()
        [usage] = proxy.context.ledger.unsent()
        assert (usage.key_id, usage.input_tokens, usage.output_tokens, usage.requests) == ("key-1", 3, 4, 1)


async def test_a_stream_gets_usage_for_the_account_and_not_for_the_client() -> None:
    parts = [
        b'data: {"choices":[{"delta":{}}]}\n\n',
        b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n',
        b"data: [DONE]\n\n",
    ]
    async with (
        engines(stream_answer(parts)) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        answer = await proxy.send(call(body=b'{"model":"chat","stream":true}'))

        assert body_of(answer) == parts[0] + parts[2]
        assert json.loads(engine.requests[0].body)["stream_options"] == {"include_usage": True}
        proxy.context.ledger.close()
        [usage] = proxy.context.ledger.unsent()
        assert (usage.input_tokens, usage.output_tokens, usage.estimated_requests) == (5, 2, 0)


async def test_a_refused_connection_is_tried_elsewhere_and_ejects_the_endpoint() -> None:
    async with engines(json_answer(), json_answer()) as (first, second):
        await first.stop()
        table = table_of(route_of(endpoint_of(first, 1), endpoint_of(second, 2)))
        async with proxy_with(table) as proxy:
            answers = [await proxy.send(call()) for _ in range(5)]

            assert {status_of(answer) for answer in answers} == {200}
            assert len(second.requests) == 5
            dead = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
            assert dead.ejection.causes == {"refused": 1}
            assert dead.outstanding == 0


async def test_a_refused_connection_is_tried_elsewhere_though_no_retry_is_left() -> None:
    async with engines(json_answer(), json_answer()) as (first, second):
        await first.stop()
        table = table_of(route_of(endpoint_of(first, 1), endpoint_of(second, 2)))
        async with proxy_with(table) as proxy:
            while proxy.context.retries.spend():
                pass

            assert status_of(await proxy.send(call())) == 200


@pytest.mark.parametrize("failing", [reset, json_answer(b"{}", b"503 Busy"), json_answer(b"{}", b"502 Bad")])
async def test_a_failure_before_the_first_byte_is_tried_elsewhere(failing: object) -> None:
    async with engines(failing, json_answer()) as (first, second):  # type: ignore[arg-type]  # one of the answers
        table = table_of(route_of(endpoint_of(first, 1), endpoint_of(second, 2)))
        async with proxy_with(table) as proxy:
            answers = [await proxy.send(call()) for _ in range(6)]

            assert {status_of(answer) for answer in answers} == {200}
            assert first.requests
            assert proxy.context.counters.retries >= 1


async def test_a_request_that_may_not_be_repeated_is_not_sent_twice() -> None:
    async with engines(reset, reset) as (first, second):
        table = table_of(route_of(endpoint_of(first, 1), endpoint_of(second, 2)))
        async with proxy_with(table) as proxy:
            answer = await proxy.send(call("/d/chat/orders"))

            assert (status_of(answer), code_of(answer)) == (502, "reset")
            assert len(first.requests) + len(second.requests) == 1
            idempotent = await proxy.send(call("/d/chat/orders", more="Idempotency-Key: 1\r\n"))
            assert status_of(idempotent) == 502
            assert len(first.requests) + len(second.requests) >= 2


async def test_client_errors_are_passed_on_and_eject_nothing() -> None:
    async with (
        engines(json_answer(b'{"e":1}', b"429 Too Many")) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        answers = [await proxy.send(call("/d/chat/x")) for _ in range(5)]

        assert {status_of(answer) for answer in answers} == {429}
        assert not proxy.context.table.routes["deployment-1"].endpoints["k1.1"].ejection.count


@pytest.mark.parametrize("failing", [reset, json_answer(b"{}", b"503 Busy")])
async def test_a_request_whose_replica_fails_waits_for_another_that_is_busy(failing: object) -> None:
    fails, answers = asyncio.Event(), asyncio.Semaphore(0)

    async def failing_later(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await fails.wait()
        await failing(request, writer)  # type: ignore[operator]  # one of the answers

    async def gated(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await answers.acquire()
        await json_answer()(request, writer)

    async with engines(failing_later, gated) as (first, second):
        table = table_of(route_of(endpoint_of(first, 1), endpoint_of(second, 2), revisions=ONE))
        async with proxy_with(table) as proxy:
            route = proxy.context.table.routes["deployment-1"]
            sends = [asyncio.create_task(proxy.send(call())) for _ in range(2)]
            await proxy.until(lambda: len(first.requests) == len(second.requests) == 1)
            fails.set()
            await proxy.until(lambda: route.queue.length == 1)
            answers.release()
            answers.release()

            assert {status_of(answer) for answer in await asyncio.gather(*sends)} == {200}
            assert len(second.requests) == 2


async def test_without_a_place_in_the_queue_a_failed_request_is_refused_with_503() -> None:
    fails = asyncio.Event()

    async def reset_later(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await fails.wait()
        await reset(request, writer)

    async with engines(reset_later, hang) as (first, second):
        entries = endpoint_of(first, 1), endpoint_of(second, 2)
        table = table_of(route_of(*entries, revisions=ONE, limits=RouteLimits(queued_max=0)))
        async with proxy_with(table) as proxy:
            sends = [asyncio.create_task(proxy.send(call())) for _ in range(2)]
            await proxy.until(lambda: len(first.requests) == len(second.requests) == 1)
            fails.set()
            [done], [other] = await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
            answer = done.result()

            assert (status_of(answer), code_of(answer)) == (503, "queue-full")
            assert b"retry-after:" in answer
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)


async def test_requests_beyond_what_an_engine_takes_wait_until_it_has_a_place() -> None:
    running, gate = 0, asyncio.Semaphore(0)

    async def one_at_a_time(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal running
        if running:
            await json_answer(b"{}", b"429 Too Many")(request, writer)
            return
        running += 1
        await gate.acquire()
        running -= 1
        await json_answer()(request, writer)

    async with (
        engines(one_at_a_time) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        route = proxy.context.table.routes["deployment-1"]
        sends = [asyncio.create_task(proxy.send(call())) for _ in range(5)]
        await proxy.until(lambda: route.queue.length == 4)
        assert route.endpoints["k1.1"].outstanding == 1
        for _ in sends:
            gate.release()

        assert {status_of(answer) for answer in await asyncio.gather(*sends)} == {200}
        assert len(engine.requests) == 5 + 4, "each that found no place was sent once more"
        assert not route.endpoints["k1.1"].ejection.count


async def test_a_stream_that_breaks_off_ends_with_an_error_event_and_without_done() -> None:
    async with (
        engines(stream_answer([b"data: 1\n\n"], breaks_off=True), json_answer()) as (first, _second),
        proxy_with(table_of(route_of(endpoint_of(first)))) as proxy,
    ):
        answer = await proxy.send(call(body=b'{"model":"chat","stream":true}'))

        events = body_of(answer).split(b"\n\n")
        assert events[0] == b"data: 1"
        assert json.loads(events[1].removeprefix(b"data: "))["error"]["code"] == "replica-failed"
        assert b"[DONE]" not in answer
        assert len(first.requests) == 1, "it is never retried after the first byte"


async def test_another_response_that_breaks_off_is_not_taken_for_whole() -> None:
    async def broken(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
        await writer.drain()
        writer.transport.abort()

    async with (
        engines(broken) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        reader, writer = await proxy.connect()
        writer.write(get("/d/chat/x"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 100" in head
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(100)
        writer.transport.abort()


async def test_a_client_that_leaves_frees_the_endpoint_at_once() -> None:
    async with (
        engines(hang) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        _reader, writer = await proxy.connect()
        writer.write(call())
        state = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        await proxy.until(lambda: len(engine.requests) == 1)
        assert state.outstanding == 1
        writer.transport.abort()
        await proxy.until(lambda: not proxy.context.exchanges)

        assert state.outstanding == 0
        assert proxy.context.counters.clients_gone == 1
        assert state.ejection.count == 0
        proxy.context.ledger.close()
        [usage] = proxy.context.ledger.unsent()
        assert (usage.requests, usage.failed, usage.estimated_requests) == (1, 0, 1)
        assert usage.estimated_tokens > 0, "the engine has read the prompt"


async def test_requests_wait_for_a_free_endpoint_and_leave_one_by_one() -> None:
    gate = asyncio.Semaphore(0)

    async def gated(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await gate.acquire()
        await json_answer()(request, writer)

    async with (
        engines(gated) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine), revisions=ONE))) as proxy,
    ):
        route = proxy.context.table.routes["deployment-1"]
        sends = [asyncio.create_task(proxy.send(call())) for _ in range(5)]
        await proxy.until(lambda: route.queue.length == 4)
        for left in (3, 2, 1, 0):
            gate.release()
            await proxy.until(lambda left=left: route.queue.length == left)  # type: ignore[misc]  # bound at once
            assert route.endpoints["k1.1"].outstanding == 1
        gate.release()

        assert {status_of(answer) for answer in await asyncio.gather(*sends)} == {200}


async def test_a_full_queue_refuses_with_503_and_a_time_to_wait() -> None:
    async with (
        engines(hang) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine), revisions=ONE, limits=RouteLimits(queued_max=1)))) as proxy,
    ):
        route = proxy.context.table.routes["deployment-1"]
        waiting = [asyncio.create_task(proxy.send(call())) for _ in range(2)]
        await proxy.until(lambda: route.queue.length == 1)
        answer = await proxy.send(call())

        assert (status_of(answer), code_of(answer)) == (503, "queue-full")
        assert b"retry-after:" in answer
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        proxy.server.close()
        await proxy.until(lambda: not proxy.context.exchanges)


async def test_a_request_waits_no_longer_than_the_limit() -> None:
    limits = RouteLimits(queue_wait_ms=50)
    async with (
        engines(hang) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine), revisions=ONE, limits=limits))) as proxy,
    ):
        first = asyncio.create_task(proxy.send(call("/d/chat/a")))
        await proxy.until(lambda: len(engine.requests) == 1)
        second = await proxy.send(call("/d/chat/b"))
        assert (status_of(second), code_of(second)) == (503, "queue-timeout")
        assert not first.done(), "it has its place, and another limit"

        limits = RouteLimits(first_byte_ms=50)
        proxy.server.apply(table_of(route_of(endpoint_of(engine), revisions=ONE, limits=limits), version=2))
        assert (status_of(await first), code_of(await first)) == (504, "first-byte-timeout")


async def test_all_endpoints_dead_is_said_at_once() -> None:
    async with engines(json_answer()) as (engine,):
        await engine.stop()
        async with proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
            first, second = await proxy.send(call()), await proxy.send(call())

            assert (status_of(first), code_of(first)) == (502, "refused")
            assert (status_of(second), code_of(second)) == (503, "no-endpoint")


async def test_held_requests_are_sent_when_a_replica_is_active() -> None:
    async with engines(json_answer()) as (engine,):
        held = route_of(holding=True)
        async with proxy_with(table_of(held)) as proxy:
            sends = [asyncio.create_task(proxy.send(call())) for _ in range(10)]
            route = proxy.context.table.routes["deployment-1"]
            await proxy.until(lambda: route.queue.length == 10)
            assert proxy.context.demanded.is_set(), "the manager is asked to wake a replica"
            assert route.report().arrived == 10
            proxy.server.apply(table_of(route_of(endpoint_of(engine), revisions=ONE), version=2, base=1, keys=()))

            assert {status_of(answer) for answer in await asyncio.gather(*sends)} == {200}


async def test_held_requests_are_refused_with_the_reason_if_nothing_can_start() -> None:
    async with proxy_with(table_of(route_of(holding=True))) as proxy:
        waiting = asyncio.create_task(proxy.send(call()))
        await proxy.until(lambda: proxy.context.table.routes["deployment-1"].queue.length == 1)
        refusal = RouteRefusal("not-placeable", "no agent has 8 GPUs")
        proxy.server.apply(table_of(route_of(holding=True, refusal=refusal), version=2, base=1))

        for answer in (await waiting, await proxy.send(call())):
            assert (status_of(answer), code_of(answer)) == (503, "not-placeable")
            assert b"no agent has 8 GPUs" in answer


async def test_a_deployment_that_is_deleted_refuses_its_waiting_requests() -> None:
    async with proxy_with(table_of(route_of(holding=True))) as proxy:
        waiting = asyncio.create_task(proxy.send(call()))
        await proxy.until(lambda: proxy.context.table.routes["deployment-1"].queue.length == 1)
        proxy.server.apply(table_of(version=2, base=1, removed=("deployment-1",)))

        assert status_of(await waiting) == 503
        assert status_of(await proxy.send(call())) == 404


async def test_the_limits_of_a_key_refuse_with_429() -> None:
    keys = (key_of(limits=KeyLimits(requests_per_minute=1)),)
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)), keys=keys)) as proxy,
    ):
        assert status_of(await proxy.send(call())) == 200
        answer = await proxy.send(call())

        assert (status_of(answer), code_of(answer)) == (429, "request-rate")
        assert b"retry-after: 60\r\n" in answer


async def test_a_large_body_is_streamed_with_back_pressure() -> None:
    body = b"x" * (BODY_KEPT_MAX + 300_000)
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        answer = await proxy.send(call("/d/chat/upload", body))
        head = b"POST /d/chat/upload HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(body) // 4, body[: len(body) // 4]) for _ in range(4)) + b"0\r\n\r\n"
        chunked = await proxy.send(head + b"Authorization: Bearer " + KEY + b"\r\n\r\n" + chunks)

        assert (status_of(answer), status_of(chunked)) == (200, 200)
        assert [len(request.body) for request in engine.requests] == [len(body), len(body) // 4 * 4]
        assert proxy.context.held_bytes == 0


@pytest.mark.slow
async def test_a_body_beyond_the_limit_is_refused_with_413() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        head = b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + KEY + b"\r\n"
        declared = await proxy.send(head + b"Content-Length: 40000000\r\n\r\n" + b"x" * 100_000)
        chunk = b"%x\r\n%b\r\n" % (1 << 20, b"x" * (1 << 20))
        actual = await proxy.send(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 33)

        assert (status_of(declared), status_of(actual)) == (413, 413)
        assert not engine.requests


async def test_a_slow_client_slows_the_endpoint_down() -> None:
    written = 0

    async def endless(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(2_000):
            writer.write(piece)
            await writer.drain()
            written += len(piece)

    async with (
        engines(endless) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        _reader, writer = await proxy.connect()
        cast("asyncio.Transport", writer.transport).pause_reading()
        writer.write(get("/d/chat/x"))
        await proxy.until(lambda: any(not upstream_reads(one) for one in proxy.context.exchanges))
        writer.transport.abort()
        await proxy.until(lambda: not proxy.context.exchanges)

        assert written < 40 << 20, "the proxy keeps no more than its buffers"
    assert engine.closed.is_set()


async def test_a_sticky_session_stays_at_one_endpoint() -> None:
    async with engines(json_answer(), json_answer(), json_answer()) as found:
        endpoints = [endpoint_of(engine, number) for number, engine in enumerate(found, 1)]
        async with proxy_with(table_of(route_of(*endpoints, policy="sticky", sticky_cookie="sid"))) as proxy:
            for _ in range(6):
                await proxy.send(call(more="X-Session-Id: alice\r\n"))
                await proxy.send(call(more="Cookie: a=b; sid=bob\r\n"))

            homes = [len(engine.requests) for engine in found if engine.requests]
            assert homes in ([6, 6], [12])


async def test_idle_connections_that_all_break_use_up_one_try_only() -> None:
    seen: set[asyncio.StreamWriter] = set()
    together = asyncio.Barrier(3)

    async def once(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        if writer in seen:
            writer.transport.abort()
            return
        seen.add(writer)
        await together.wait()
        await json_answer()(request, writer)

    async with engines(once, json_answer()) as (ending, other):
        alone = route_of(endpoint_of(ending), policy="least-load")
        both = route_of(endpoint_of(ending, 1), endpoint_of(other, 2), policy="least-load")
        async with proxy_with(table_of(alone)) as proxy:
            await asyncio.gather(*(proxy.send(call()) for _ in range(3)))
            ending.refuse()
            proxy.server.apply(table_of(both, version=2))
            # Of equal load, the one that served less is chosen: the one that ends.
            proxy.context.table.routes["deployment-1"].endpoints["k2.1"].served = 100

            assert status_of(await proxy.send(call())) == 200
            assert len(ending.requests) == 4, "one idle connection was tried"
            assert len(other.requests) == 1
