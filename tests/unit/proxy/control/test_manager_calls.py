"""Calls of several managers: the next one is asked when one is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.proxy.control import control_link, manager_calls
from sokovan.proxy.control.control_link import ControlLink, ProxyIdentity
from sokovan.proxy.control.manager_calls import ManagerAway, ManagerCalls
from sokovan.wire.serving.proxy_reports import ReportAnswer
from tests.unit.proxy.control.test_control_link import Manager
from tests.unit.proxy.running_proxy import Engine, SeenRequest, engines, json_answer, proxy_with, route_of, table_of

PATH = "/internal/anything"


async def hang(_request: SeenRequest, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def calls_of(*managers: Engine, log: list[str]) -> AsyncIterator[ManagerCalls]:
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx2.AsyncClient(
                    base_url=f"http://127.0.0.1:{one.port}", headers={"authorization": "Bearer proxy-token"}
                )
            )
            for one in managers
        ]
        yield ManagerCalls(clients, log.append)


async def test_the_next_manager_is_asked_and_kept() -> None:
    log: list[str] = []
    answers = (json_answer(b"1", b"503 Away"), json_answer(b"2"))
    async with engines(*answers) as (first, second), calls_of(first, second, log=log) as calls:
        assert [await calls.call("GET", PATH) for _ in range(3)] == [b"2", b"2", b"2"]
        assert (len(first.requests), len(second.requests)) == (1, 3)
        await second.stop()
        first.answer = json_answer(b"1")
        assert await calls.call("GET", PATH) == b"1"
    assert ["answered 503" in line for line in log] == [True, False]


async def test_calls_that_fail_together_move_on_once() -> None:
    log: list[str] = []
    answers = (json_answer(b"", b"500 Oops"), json_answer(b"2"))
    async with engines(*answers) as (first, second), calls_of(first, second, log=log) as calls:
        assert await asyncio.gather(*(calls.call("GET", PATH) for _ in range(4))) == [b"2"] * 4
    assert len(log) == 1


async def test_all_managers_away_is_said_after_each_was_asked_once() -> None:
    log: list[str] = []
    answers = (json_answer(b"", b"500 Oops"), json_answer(b"", b"401 No"))
    async with engines(*answers) as (first, second), calls_of(first, second, log=log) as calls:
        with pytest.raises(ManagerAway, match="answered 401"):
            await calls.call("GET", PATH)
        assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_one_of_several_managers_that_hangs_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_calls, "ANSWER_OF_SEVERAL_S", 0.2)
    async with engines(hang, json_answer(b"2")) as (first, second), calls_of(first, second, log=[]) as calls:
        assert await calls.call("POST", PATH, content=b"{}") == b"2"
        assert calls.wait_s == manager_calls.WAIT_OF_SEVERAL_S


@pytest.mark.slow
async def test_table_and_usage_go_through_the_second_manager_when_the_first_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_link, "REPORT_EVERY_S", 0.12)
    one, two = Manager(), Manager(answer=ReportAnswer(usage_sequence=1))
    one.updates.put_nowait(table_of(route_of(name="first")))
    log: list[str] = []
    async with (
        proxy_with(None) as proxy,
        engines(one, two) as (first, second),
        calls_of(first, second, log=log) as calls,
    ):
        ledger = proxy.context.ledger
        link = ControlLink(
            proxy.context,
            calls,
            ProxyIdentity("proxy-1", 1),
            clock=SystemClock(),
            apply=proxy.server.apply,
            save_usage=lambda: None,
        )
        tasks = [asyncio.create_task(link.follow_table()), asyncio.create_task(link.send_reports())]
        await proxy.until(lambda: bool(proxy.context.table.routes))
        await first.stop()
        ledger.add(key_id="k", deployment_id="d", revision=1, count=TokenCount(1, 2), failed=False, now_ms=60_000)
        two.updates.put_nowait(table_of(route_of(name="second"), version=2))
        await proxy.until(lambda: proxy.context.table.version == 2)
        await proxy.until(lambda: any(report.usage for report in two.reports))
        await proxy.until(lambda: not ledger.entries)
        assert not proxy.context.manager_away
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert log[0].startswith("the proxy goes on with another manager: http://127.0.0.1:")
