"""The link to the manager: table, deltas, reports, and a manager that is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.proxy.connections import exchange
from sokovan.proxy.control import control_link
from sokovan.proxy.control.control_link import ControlLink, ProxyIdentity
from sokovan.proxy.control.manager_calls import ManagerCalls
from sokovan.wire.serving.proxy_reports import BudgetLease, ProxyReport, ReportAnswer
from sokovan.wire.serving.route_table import KeyLimits, RouteLimits, TableUpdate
from sokovan.wire.serving.serving_codec import decode_report, encode
from tests.unit.proxy.running_proxy import (
    Engine,
    RunningProxy,
    SeenRequest,
    call,
    code_of,
    json_answer,
    key_of,
    proxy_with,
    route_of,
    status_of,
    table_of,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _frequent_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_link, "REPORT_EVERY_S", 0.12)


@dataclass
class Manager:
    """A manager that sends one update after the other, then waits."""

    updates: asyncio.Queue[TableUpdate | bytes] = field(default_factory=asyncio.Queue)
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    reports: list[ProxyReport] = field(default_factory=list)
    answer: ReportAnswer = field(default_factory=ReportAnswer)

    async def __call__(self, request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        assert request.field(b"authorization") == b"Bearer proxy-token"
        if request.line.startswith(b"GET"):
            self.asked.append(parse_qs(urlsplit(request.line.split()[1].decode()).query))
            update = await self.updates.get()
            content = update if isinstance(update, bytes) else encode(update)
            await json_answer(content, b"500 Oops" if content == b"error" else b"200 OK")(request, writer)
        else:
            self.reports.append(decode_report(request.body))
            await json_answer(encode(self.answer))(request, writer)


@contextlib.asynccontextmanager
async def linked(proxy: RunningProxy, engine: Engine, saved: list[int]) -> AsyncIterator[ControlLink]:
    async with httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{engine.port}", headers={"authorization": "Bearer proxy-token"}
    ) as client:
        link = ControlLink(
            proxy.context,
            ManagerCalls([client], proxy.context.log),
            ProxyIdentity("proxy-1", 4),
            clock=SystemClock(),
            apply=proxy.server.apply,
            save_usage=lambda: saved.append(proxy.context.ledger.sequence),
        )
        tasks = [asyncio.create_task(link.follow_table()), asyncio.create_task(link.send_reports())]
        try:
            yield link
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[Engine]:
    engine = Engine(manager)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def test_the_table_is_fetched_whole_and_then_by_deltas_which_are_acknowledged() -> None:
    manager = Manager()
    async with proxy_with(None) as proxy, running(manager) as engine, linked(proxy, engine, []):
        manager.updates.put_nowait(table_of(route_of(), version=3))
        await proxy.until(lambda: any(report.version == 3 for report in manager.reports))
        manager.updates.put_nowait(table_of(version=4, base=3, removed=("deployment-1",)))
        await proxy.until(lambda: any(report.version == 4 for report in manager.reports))

        assert manager.asked[0] == {"version": ["0"], "wait_s": ["0"]}
        assert manager.asked[1] == {"epoch": ["e1"], "version": ["3"], "wait_s": ["25"]}
        assert not proxy.context.table.routes
        assert {(report.proxy_id, report.incarnation) for report in manager.reports} == {("proxy-1", 4)}


async def test_a_manager_without_news_is_not_asked_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_link, "PAUSE_FIRST_S", 3600.0)
    manager = Manager()
    async with proxy_with(None) as proxy, running(manager) as engine, linked(proxy, engine, []):
        for _ in range(5):
            manager.updates.put_nowait(table_of(version=3))
        await proxy.until(lambda: len(manager.asked) == 2)
        count = len(manager.reports)
        await proxy.until(lambda: len(manager.reports) > count + 2)

        assert len(manager.asked) == 2


async def test_a_delta_that_does_not_follow_is_answered_by_asking_for_the_whole_table() -> None:
    manager = Manager()
    async with proxy_with(None) as proxy, running(manager) as engine, linked(proxy, engine, []):
        manager.updates.put_nowait(table_of(version=3))
        manager.updates.put_nowait(table_of(version=9, base=8))
        manager.updates.put_nowait(table_of(route_of(), version=9))
        await proxy.until(lambda: proxy.context.table.version == 9)

        assert manager.asked[2] == {"version": ["0"], "wait_s": ["0"]}


async def test_a_manager_that_fails_is_asked_again_and_the_table_stays_in_force() -> None:
    manager = Manager()
    async with (
        proxy_with(table_of(route_of(holding=True))) as proxy,
        running(manager) as engine,
        linked(proxy, engine, []),
    ):
        for content in (b"error", b"not json"):
            manager.updates.put_nowait(content)
        await engine.stop()
        assert status_of(await proxy.send(call(body=b"{}"))) == 400, "it serves on"
        await engine.start()
        manager.updates.put_nowait(table_of(version=7))
        await proxy.until(lambda: proxy.context.table.version == 7)


async def test_usage_is_saved_before_it_is_sent_and_forgotten_once_it_is_stored() -> None:
    manager, saved = Manager(), list[int]()
    async with proxy_with(table_of(route_of())) as proxy, running(manager) as engine:
        ledger = proxy.context.ledger
        ledger.add(key_id="k", deployment_id="d", revision=1, count=TokenCount(1, 2), failed=False, now_ms=60_000)
        async with linked(proxy, engine, saved):
            await proxy.until(lambda: len(manager.reports) >= 2)
            assert saved == [1]
            assert [report.usage[0].sequence for report in manager.reports[:2]] == [1, 1], "until it is stored"
            manager.answer = ReportAnswer(usage_sequence=1)
            await proxy.until(lambda: not ledger.entries)
            await proxy.until(lambda: saved == [1, 1])


async def test_budgets_are_leased_by_the_answers_to_reports() -> None:
    lease = BudgetLease(key_id="key-1", tokens=5_000, budget=5_000)
    manager = Manager(answer=ReportAnswer(budgets=(lease,), month_end=2**31))
    keys = (key_of(limits=KeyLimits(budgeted=True)),)
    async with proxy_with(table_of(route_of(), keys=keys)) as proxy, running(manager) as engine:
        waiting = asyncio.create_task(proxy.send(call()))
        await proxy.until(lambda: len(proxy.context.unleased) == 1)
        async with linked(proxy, engine, []):
            answer = await waiting
            assert code_of(answer) == "no-endpoint", "it waited for the lease; there is only no endpoint"
            first = next(report for report in manager.reports if report.budgets)
            assert first.budgets[0].needed >= 1_024
            beyond = await proxy.send(call(body=b'{"model":"chat","max_tokens":6000}'))
            assert (status_of(beyond), code_of(beyond)) == (429, "token-budget")
        assert not proxy.context.unleased


@pytest.mark.parametrize(("away", "away_ms", "queue_ms"), [(True, 100, 600_000), (False, 600_000, 100)])
async def test_a_request_waits_for_a_lease_shorter_while_the_manager_is_away(
    monkeypatch: pytest.MonkeyPatch, *, away: bool, away_ms: int, queue_ms: int
) -> None:
    monkeypatch.setattr(exchange, "LEASE_WAIT_MS", away_ms)
    keys = (key_of(limits=KeyLimits(budgeted=True)),)
    async with proxy_with(table_of(route_of(limits=RouteLimits(queue_wait_ms=queue_ms)), keys=keys)) as proxy:
        proxy.context.manager_away = away
        answer = await proxy.send(call())

        assert (status_of(answer), code_of(answer)) == (503, "budget-lease")
        assert not proxy.context.unleased


async def test_a_request_that_begins_to_wait_is_reported_soon() -> None:
    manager = Manager()
    async with (
        proxy_with(table_of(route_of(holding=True))) as proxy,
        running(manager) as engine,
        linked(proxy, engine, []),
    ):
        waiting = asyncio.create_task(proxy.send(call()))
        await proxy.until(lambda: any(one.queued for report in manager.reports for one in report.routes))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await proxy.until(lambda: not proxy.context.exchanges)
