"""Load is counted before sending and released on every path."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.domain.serving.health import Health, HealthCounter
from sokovan.proxy.routing import endpoint_state
from sokovan.proxy.routing.ejection import CONNECT_TIMEOUT
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


async def malformed(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}")
    await writer.drain()


def at_first(answer: Answer, times: int) -> Answer:
    """An engine whose first answers are others."""
    seen: list[SeenRequest] = []

    async def some(request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        await (answer if len(seen) <= times else json_answer())(request, writer)

    return some


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


async def test_answers_are_timed_and_errors_are_not() -> None:
    async with (
        engines(at_first(json_answer(b"{}", b"400 Bad"), 1)) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        endpoint = proxy.context.table.routes["deployment-1"].endpoints["k1.1"]
        for answers in (0, 1):
            assert (await proxy.send(call())).startswith(b"HTTP/1.1 ")
            await proxy.until(lambda: not proxy.context.exchanges)
            began, ended = endpoint.times.counts(proxy.context.now_ms())
            assert (sum(began), sum(ended)) == (answers, answers)
        report = endpoint.report(proxy.context.now_ms())
        assert sum(report.began_recently) == sum(report.ended_recently) == 1


@pytest.mark.parametrize("fault", [malformed, reset])
async def test_a_single_fault_does_not_eject_the_last_replica(fault: Answer) -> None:
    async with (
        engines(at_first(fault, 1)) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        statuses = [status_of(await proxy.send(call())) for _ in range(2)]

        assert statuses == [502, 200]
        assert proxy.context.table.routes["deployment-1"].endpoints["k1.1"].ejection.count == 0


@pytest.mark.parametrize(("fault", "cause"), [(malformed, "malformed-response"), (reset, "reset")])
async def test_three_faults_in_a_row_eject_the_last_replica_too(fault: Answer, cause: str) -> None:
    async with (
        engines(fault) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        statuses = [status_of(await proxy.send(call())) for _ in range(4)]

        assert statuses == [502, 502, 502, 503]
        assert proxy.context.table.routes["deployment-1"].endpoints["k1.1"].ejection.causes == {cause: 1}


async def test_a_malformed_answer_is_tried_elsewhere_and_ejects_none_of_two() -> None:
    async with (
        engines(at_first(malformed, 1), at_first(malformed, 1)) as (one, two),
        proxy_with(table_of(route_of(endpoint_of(one), endpoint_of(two, 2)))) as proxy,
    ):
        assert status_of(await proxy.send(call())) == 200
        found = proxy.context.table.routes["deployment-1"].endpoints.values()
        assert [each.ejection.count for each in found] == [0, 0]


async def test_a_lost_connection_ejects_at_once_while_another_replica_serves() -> None:
    async with (
        engines(reset, json_answer()) as (one, two),
        proxy_with(table_of(route_of(endpoint_of(one), endpoint_of(two, 2)))) as proxy,
    ):
        statuses = [status_of(await proxy.send(call())) for _ in range(3)]

        assert statuses == [200, 200, 200]
        assert proxy.context.table.routes["deployment-1"].endpoints["k1.1"].ejection.causes == {"reset": 1}


async def test_a_lost_connection_ejects_no_replica_while_the_others_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint_state, "RESTS_MS", 1)
    async with (
        engines(at_first(reset, 1), json_answer()) as (one, two),
        proxy_with(table_of(route_of(endpoint_of(one), endpoint_of(two, 2)))) as proxy,
    ):
        first, late = proxy.context.table.routes["deployment-1"].endpoints.values()
        await proxy.until(lambda: bool(first.health.successes and late.health.successes))
        late.health = HealthCounter(Health.HEALTHY)
        late.ejection.broken(proxy.context.now_ms(), CONNECT_TIMEOUT)

        assert status_of(await proxy.send(call())) == 200
        assert (len(one.requests), first.ejection.count) == (2, 0)


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


async def cut(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(head + b"9\r\ndata: 1\n\n\r\n")
    await writer.drain()
    writer.transport.abort()


@pytest.mark.parametrize(
    ("answer", "failures"),
    [(cut, 1), (reset, 1), (json_answer(b"{}", b"500 Oops"), 1), (json_answer(b"{}", b"503 Later"), 1),
     (json_answer(b"{}", b"400 No"), 0), (json_answer(), 0)],
)  # fmt: skip
async def test_each_answer_is_counted_once_as_whole_or_failed(answer: Answer, failures: int) -> None:
    async with (
        engines(answer) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        assert (await proxy.send(call())).startswith(b"HTTP/1.1 ")
        await proxy.until(lambda: not proxy.context.exchanges)

        report = proxy.context.table.routes["deployment-1"].endpoints["k1.1"].report(proxy.context.now_ms())
        assert (report.answers, report.failures) == (1, failures)
