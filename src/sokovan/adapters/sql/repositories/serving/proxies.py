"""Reports of proxies and the usage in them, on SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Row

from sokovan.adapters.sql.repositories.serving.token_budgets import SqlTokenBudgets
from sokovan.adapters.sql.schema.serving_tables import USAGE_COUNTS
from sokovan.adapters.sql.schema.tables import SERVING
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.ids import DeploymentId
from sokovan.domain.plain_values import from_plain, to_plain
from sokovan.domain.serving.budget import BudgetNeed, month_of
from sokovan.domain.serving.records import EndpointObservation, ProxyRecord, ReportOutcome, RouteDemand, UsageCount

_TABLE, _USAGE, _LEASES = SERVING.proxies, SERVING.usage, SERVING.budget_leases
# Every cycle and every report run these: they are compiled once.
_REPORTED = sa.select(_TABLE).where(_TABLE.c.reported_ms >= sa.bindparam("since_ms")).order_by(_TABLE.c.proxy_id)
_LAST_REPORT = sa.select(_TABLE).where(_TABLE.c.proxy_id == sa.bindparam("proxy")).with_for_update()
MINUTE_MS = 60_000
_USAGE_KEY = ("minute", "key_id", "deployment_id", "revision")


class SqlProxies:
    """Proxies on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def report(
        self, report: ProxyRecord, usage: Sequence[UsageCount] = (), needs: Sequence[BudgetNeed] = ()
    ) -> ReportOutcome:
        """See the port."""
        row = await self._transaction.first(_LAST_REPORT, {"proxy": report.proxy_id})
        ingested = 0 if row is None else row.usage_sequence
        fresh = sorted((one for one in usage if one.sequence > ingested), key=lambda one: one.sequence)
        for count in fresh:
            await self._add(count)
        last = int(fresh[-1].sequence if fresh else ingested)
        month = month_of(self._transaction.now_ms // MINUTE_MS)
        budgets = SqlTokenBudgets(self._transaction, report.proxy_id)
        if row is not None and _overtaken(report, row):
            await budgets.settle(fresh, (), month)
            sequence = sa.update(_TABLE).where(_TABLE.c.proxy_id == report.proxy_id).values(usage_sequence=last)
            await self._transaction.execute(sequence)
            return ReportOutcome(usage_sequence=last, month=month)
        if row is not None and row.incarnation < report.incarnation:
            await budgets.forget(month)
        await self._store(report, last)
        grants = await budgets.settle(fresh, needs, month)
        return ReportOutcome(usage_sequence=last, month=month, grants=grants)

    async def _store(self, report: ProxyRecord, usage_sequence: int) -> None:
        values = {
            "incarnation": report.incarnation,
            "epoch": report.epoch,
            "version": report.version,
            "reported_ms": self._transaction.now_ms,
            "usage_sequence": usage_sequence,
            "body": _body(report),
        }
        insert = self._insert(_TABLE).values(proxy_id=report.proxy_id, **values)
        await self._transaction.execute(insert.on_conflict_do_update(index_elements=["proxy_id"], set_=values))

    async def live(self, *, since_ms: int) -> Sequence[ProxyRecord]:
        """See the port."""
        return [_record(row) for row in await self._transaction.fetch(_REPORTED, {"since_ms": since_ms})]

    async def usage(self, deployment_id: DeploymentId, *, since_minute: int) -> Sequence[UsageCount]:
        """See the port."""
        wanted = (_USAGE.c.deployment_id == deployment_id, _USAGE.c.minute >= since_minute)
        statement = sa.select(_USAGE).where(*wanted).order_by(_USAGE.c.minute, _USAGE.c.key_id, _USAGE.c.revision)
        return [_usage(row) for row in await self._transaction.fetch(statement)]

    async def expire(self, *, before_ms: int) -> int:
        """See the port."""
        month = month_of(before_ms // MINUTE_MS)
        await self._transaction.execute(sa.delete(_LEASES).where(_LEASES.c.month < month.start))
        return await self._transaction.execute(sa.delete(_TABLE).where(_TABLE.c.reported_ms < before_ms))

    async def _add(self, count: UsageCount) -> None:
        plain = to_plain(count)
        added = {name: plain[name] for name in USAGE_COUNTS}
        insert = self._insert(_USAGE).values({**{name: plain[name] for name in _USAGE_KEY}, **added})
        summed = {name: _USAGE.c[name] + insert.excluded[name] for name in USAGE_COUNTS}
        await self._transaction.execute(insert.on_conflict_do_update(index_elements=list(_USAGE_KEY), set_=summed))

    def _insert(self, table: sa.Table) -> Any:
        return (postgresql.insert if self._transaction.postgresql else sqlite.insert)(table)


def _body(report: ProxyRecord) -> str:
    body = {
        "number": report.number,
        "url": report.url,
        "endpoints": to_plain(report.endpoints),
        "routes": to_plain(report.routes),
    }
    return msgspec.json.encode(body).decode()


def _overtaken(report: ProxyRecord, row: Row[Any]) -> bool:
    """Whether a later report of the proxy was stored already."""
    stored = (row.incarnation, msgspec.json.decode(row.body).get("number", 0))
    return (report.incarnation, report.number) < stored


def _record(row: Row[Any]) -> ProxyRecord:
    body = msgspec.json.decode(row.body)
    return ProxyRecord(
        proxy_id=row.proxy_id,
        incarnation=row.incarnation,
        number=body.get("number", 0),
        epoch=row.epoch,
        version=row.version,
        reported_ms=row.reported_ms,
        url=body.get("url", ""),
        usage_sequence=row.usage_sequence,
        endpoints={name: from_plain(EndpointObservation, one, key=name) for name, one in body["endpoints"].items()},
        routes={name: from_plain(RouteDemand, one, key=name) for name, one in body["routes"].items()},
    )


def _usage(row: Row[Any]) -> UsageCount:
    return UsageCount(
        sequence=0,
        deployment_id=DeploymentId(row.deployment_id),
        minute=row.minute,
        key_id=row.key_id,
        revision=row.revision,
        **{name: getattr(row, name) for name in USAGE_COUNTS},
    )
