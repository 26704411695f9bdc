"""Routes, endpoint tokens and the table of proxies on SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Row
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.serving.status_rows import StatusRows
from sokovan.adapters.sql.schema.tables import SERVING
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.events import RouteMoved
from sokovan.domain.ids import DeploymentId, EndpointTokenId, RouteId
from sokovan.domain.lifecycle.route import ROUTE, RouteStatus, RouteTrigger
from sokovan.domain.plain_values import from_plain, to_plain
from sokovan.domain.records import Change, HistoryEntry
from sokovan.domain.serving.records import EndpointTokenRecord, RouteRecord, ServingTable
from sokovan.domain.serving.route import RouteSpec
from sokovan.domain.serving.token import EndpointTokenSpec

_TABLE, _TOKENS, _VERSION, _USAGE = SERVING.routes, SERVING.tokens, SERVING.version, SERVING.usage
_ENDED = [status.value for status in ROUTE.terminal]
# The name of the only row of the version's table.
_ROW = "routes"
# Every cycle and every report of a proxy runs these: they are compiled once.
_ALL_LIVE = sa.select(_TABLE).where(*(_TABLE.c.status != ended for ended in _ENDED)).order_by(_TABLE.c.route_id)
_PRESENT = sa.select(_TABLE).where(_TABLE.c.entry != sa.literal("")).order_by(_TABLE.c.route_id)
_CHANGED = sa.select(_TABLE).where(_TABLE.c.table_version > sa.bindparam("since")).order_by(_TABLE.c.route_id)
_TOKENS_PRESENT = sa.select(_TOKENS).where(_TOKENS.c.revoked_ms.is_(None)).order_by(_TOKENS.c.token_id)
_TOKENS_CHANGED = sa.select(_TOKENS).where(_TOKENS.c.table_version > sa.bindparam("since")).order_by(_TOKENS.c.token_id)
_OF_TABLE = _VERSION.c.name == _ROW
_CURRENT_VERSION = sa.select(_VERSION).where(_OF_TABLE)
_RAISE_VERSION = sa.update(_VERSION).where(_OF_TABLE).values(version=_VERSION.c.version + 1)


class SqlRoutes:
    """Routes on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._rows = StatusRows(transaction, ROUTE, _TABLE)

    async def create(self, spec: RouteSpec, change: Change) -> RouteRecord:
        """See the port."""
        deployments = SERVING.deployments
        owner = sa.select(deployments.c.deployment_id).where(deployments.c.deployment_id == spec.deployment_id)
        if await self._transaction.first(owner) is None:
            raise ObjectNotFound(what="deployment", name=spec.deployment_id)
        values = {
            "deployment_id": spec.deployment_id,
            "entry": "",
            "table_version": 0,
            "since_ms": self._transaction.now_ms,
        }
        try:
            await self._rows.insert(spec.route_id, values, change)
        except IntegrityError as error:
            raise Conflict(f"route {spec.route_id!r}, or one of its deployment, exists already") from error
        return await self.get(spec.route_id)

    async def get(self, route_id: RouteId) -> RouteRecord:
        """See the port."""
        return _record(await self._rows.get(route_id))

    async def of_deployment(self, deployment_id: DeploymentId) -> RouteRecord | None:
        """See the port."""
        row = await self._transaction.first(sa.select(_TABLE).where(_TABLE.c.deployment_id == deployment_id))
        return None if row is None else _record(row)

    async def live(self) -> Sequence[RouteRecord]:
        """See the port."""
        return [_record(row) for row in await self._transaction.fetch(_ALL_LIVE)]

    async def move(self, route: RouteRecord, trigger: RouteTrigger, change: Change) -> RouteRecord:
        """See the port."""
        expected = (route.status.value, route.version)
        moved = _record(await self._rows.move(route.spec.route_id, expected, trigger, change))
        self._transaction.events.append(
            RouteMoved(
                at_ms=self._transaction.now_ms,
                route_id=route.spec.route_id,
                before=route.status,
                after=moved.status,
                trigger=trigger.value,
            )
        )
        return moved

    async def publish(self, route: RouteRecord, entry: str) -> RouteRecord:
        """See the port."""
        values = {"entry": entry, "table_version": await next_version(self._transaction)}
        expected = (route.status.value, route.version)
        return _record(await self._rows.change(route.spec.route_id, expected, **values))

    async def table(self, *, since: int | None = None) -> ServingTable:
        """See the port."""
        epoch, version = await self.version()
        if since is None:
            routes = await self._transaction.fetch(_PRESENT)
            tokens = await self._transaction.fetch(_TOKENS_PRESENT)
        else:
            routes = await self._transaction.fetch(_CHANGED, {"since": since})
            tokens = await self._transaction.fetch(_TOKENS_CHANGED, {"since": since})
        return ServingTable(
            epoch=epoch,
            version=version,
            routes=tuple(_record(row) for row in routes),
            tokens=tuple(_token(row) for row in tokens),
        )

    async def version(self) -> tuple[str, int]:
        """See the port."""
        row = await self._transaction.first(_CURRENT_VERSION)
        return ("", 0) if row is None else (row.epoch, row.version)

    async def history(self, route_id: RouteId) -> Sequence[HistoryEntry]:
        """See the port."""
        return await history.read_history(self._transaction, ROUTE.name, route_id)


class SqlEndpointTokens:
    """Endpoint tokens on SQL. Digests are not quoted in errors."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def create(self, spec: EndpointTokenSpec, digest: str, created_by: str) -> EndpointTokenRecord:
        """See the port."""
        row = {
            "token_id": spec.token_id,
            "deployment_id": spec.deployment_id,
            "digest": digest,
            "created_ms": self._transaction.now_ms,
            "created_by": created_by,
            "table_version": await next_version(self._transaction),
            "body": msgspec.json.encode(to_plain(spec)).decode(),
        }
        try:
            async with self._transaction.savepoint():
                await self._transaction.execute(sa.insert(_TOKENS), row)
        except IntegrityError as error:
            # Without its cause, because the database's message may quote the digest.
            del error
            raise Conflict("the token exists already, or its deployment does not", hint="make a new token") from None
        found = await self._transaction.first(sa.select(_TOKENS).where(_TOKENS.c.token_id == spec.token_id))
        if found is None:
            raise ObjectNotFound(what="token", name=spec.token_id)
        return _token(found)

    async def of_deployment(self, deployment_id: DeploymentId) -> Sequence[EndpointTokenRecord]:
        """See the port."""
        wanted = (_TOKENS.c.deployment_id == deployment_id, _TOKENS.c.revoked_ms.is_(None))
        statement = sa.select(_TOKENS).where(*wanted).order_by(_TOKENS.c.token_id)
        return [_token(row) for row in await self._transaction.fetch(statement)]

    async def find(self, digest: str) -> EndpointTokenRecord | None:
        """See the port."""
        wanted = (_TOKENS.c.digest == digest, _TOKENS.c.revoked_ms.is_(None))
        row = await self._transaction.first(sa.select(_TOKENS).where(*wanted))
        return None if row is None else _token(row)

    async def revoke(self, token_id: EndpointTokenId) -> None:
        """See the port."""
        values = {"revoked_ms": self._transaction.now_ms, "table_version": await next_version(self._transaction)}
        wanted = (_TOKENS.c.token_id == token_id, _TOKENS.c.revoked_ms.is_(None))
        await self._transaction.execute(sa.update(_TOKENS).where(*wanted).values(values))

    async def used(self, deployment_id: DeploymentId, *, since_minute: int) -> Mapping[str, int]:
        """See the port."""
        counts = _USAGE.c.input_tokens + _USAGE.c.output_tokens + _USAGE.c.estimated_tokens
        wanted = (_USAGE.c.deployment_id == deployment_id, _USAGE.c.minute >= since_minute)
        statement = sa.select(_USAGE.c.key_id, sa.func.sum(counts).label("tokens")).where(*wanted)
        rows = await self._transaction.fetch(statement.group_by(_USAGE.c.key_id))
        return {row.key_id: int(row.tokens) for row in rows}


async def next_version(transaction: Transaction) -> int:
    """The next version of the table; its row is locked until the commit."""
    first = {"name": _ROW, "epoch": f"{transaction.now_ms}.{transaction.number}", "version": 0}
    await transaction.insert_new(_VERSION, first)
    await transaction.execute(_RAISE_VERSION)
    row = await transaction.first(_CURRENT_VERSION)
    return 0 if row is None else int(row.version)


def _record(row: Row[Any]) -> RouteRecord:
    return RouteRecord(
        spec=RouteSpec(RouteId(row.route_id), DeploymentId(row.deployment_id)),
        status=RouteStatus(row.status),
        version=row.version,
        entry=row.entry,
        table_version=row.table_version,
        since_ms=row.since_ms,
    )


def _token(row: Row[Any]) -> EndpointTokenRecord:
    return EndpointTokenRecord(
        spec=from_plain(EndpointTokenSpec, msgspec.json.decode(row.body), key="token"),
        digest=row.digest,
        created_ms=row.created_ms,
        created_by=row.created_by,
        revoked_ms=row.revoked_ms,
        table_version=row.table_version,
    )
