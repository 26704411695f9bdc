"""Deployment and route repositories on SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Row
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.schema.tables import DEPLOYMENTS, ENDPOINTS, ROUTES, SCALING_GROUPS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict, ObjectNotFound, StaleVersion
from sokovan.domain.events import DeploymentMoved, DeploymentScaled, RouteMoved
from sokovan.domain.ids import AgentId, DeploymentId, KernelId, RouteId
from sokovan.domain.lifecycle.deployment import DEPLOYMENT, DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.route import ROUTE, RouteStatus, RouteTrigger
from sokovan.domain.plain_values import from_plain, to_plain
from sokovan.domain.records import Change, DeploymentRecord, HistoryEntry, RouteRecord
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.health import Health
from sokovan.domain.serving.route import Endpoint, RouteSpec


class SqlDeployments:
    """Deployments on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def create(self, spec: DeploymentSpec, change: Change) -> DeploymentRecord:
        """See the port."""
        group = sa.select(SCALING_GROUPS.c.name).where(SCALING_GROUPS.c.name == spec.scaling_group)
        if await self._transaction.first(group) is None:
            raise ObjectNotFound(what="scaling group", name=spec.scaling_group)
        entry = history.HistoryRow(spec.deployment_id, 1, None, DEPLOYMENT.initial.value, "created")
        values: dict[str, Any] = {"status": DEPLOYMENT.initial.value, "version": 1, "history_sequence": 1}
        row = {
            "deployment_id": spec.deployment_id,
            "scaling_group": spec.scaling_group,
            **values,
            **_spec_columns(spec),
        }
        try:
            async with self._transaction.savepoint():
                await history.append(self._transaction, DEPLOYMENT.name, [entry], change)
                await self._transaction.execute(sa.insert(DEPLOYMENTS), row)
        except IntegrityError as error:
            raise Conflict(f"deployment {spec.deployment_id!r} exists already") from error
        return await self.get(spec.deployment_id)

    async def get(self, deployment_id: DeploymentId) -> DeploymentRecord:
        """See the port."""
        statement = sa.select(DEPLOYMENTS).where(DEPLOYMENTS.c.deployment_id == deployment_id)
        row = await self._transaction.first(statement)
        if row is None:
            raise ObjectNotFound(what="deployment", name=deployment_id)
        return _deployment(row)

    async def all(self) -> Sequence[DeploymentRecord]:
        """See the port."""
        ended = [status.value for status in DEPLOYMENT.terminal]
        statement = sa.select(DEPLOYMENTS).where(DEPLOYMENTS.c.status.not_in(ended))
        rows = await self._transaction.fetch(statement.order_by(DEPLOYMENTS.c.deployment_id))
        return [_deployment(row) for row in rows]

    async def scale(self, deployment: DeploymentRecord, replicas: int, change: Change) -> DeploymentRecord:
        """See the port."""
        spec = replace(deployment.spec, replicas_desired=replicas)
        moved = await self._move(deployment, DeploymentTrigger.SCALE_REQUESTED, change, **_spec_columns(spec))
        self._transaction.events.append(
            DeploymentScaled(
                at_ms=self._transaction.now_ms,
                deployment_id=spec.deployment_id,
                replicas_before=deployment.spec.replicas_desired,
                replicas_desired=replicas,
            )
        )
        return moved

    async def move(self, deployment: DeploymentRecord, trigger: DeploymentTrigger, change: Change) -> DeploymentRecord:
        """See the port."""
        moved = await self._move(deployment, trigger, change)
        self._transaction.events.append(
            DeploymentMoved(
                at_ms=self._transaction.now_ms,
                deployment_id=deployment.spec.deployment_id,
                before=deployment.status,
                after=moved.status,
                trigger=trigger.value,
            )
        )
        return moved

    async def history(self, deployment_id: DeploymentId) -> Sequence[HistoryEntry]:
        """See the port."""
        return await history.read_history(self._transaction, DEPLOYMENT.name, deployment_id)

    async def _move(
        self, deployment: DeploymentRecord, trigger: DeploymentTrigger, change: Change, **values: Any
    ) -> DeploymentRecord:
        deployment_id = deployment.spec.deployment_id
        row = await _locked(self._transaction, DEPLOYMENTS, deployment_id, (deployment.status, deployment.version))
        after = DEPLOYMENT.after(deployment.status, trigger, by=change.by)
        await _advance(
            self._transaction,
            DEPLOYMENTS,
            row,
            history.HistoryRow(deployment_id, row.history_sequence + 1, row.status, after.value, trigger.value),
            change=change,
            **values,
        )
        return await self.get(deployment_id)


class SqlRoutes:
    """Routes on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def create(self, spec: RouteSpec, change: Change) -> RouteRecord:
        """See the port."""
        owner = sa.select(DEPLOYMENTS.c.deployment_id).where(DEPLOYMENTS.c.deployment_id == spec.deployment_id)
        if await self._transaction.first(owner) is None:
            raise ObjectNotFound(what="deployment", name=spec.deployment_id)
        entry = history.HistoryRow(spec.route_id, 1, None, ROUTE.initial.value, "created")
        started = {"status": ROUTE.initial.value, "version": 1, "history_sequence": 1}
        row = {"route_id": spec.route_id, "deployment_id": spec.deployment_id, **started}
        try:
            async with self._transaction.savepoint():
                await history.append(self._transaction, ROUTE.name, [entry], change)
                await self._transaction.execute(sa.insert(ROUTES), row)
                await self._insert_endpoints(spec.route_id, spec.endpoints)
        except IntegrityError as error:
            raise Conflict(f"route {spec.route_id!r} or an address of its endpoints exists already") from error
        return await self.get(spec.route_id)

    async def get(self, route_id: RouteId) -> RouteRecord:
        """See the port."""
        row = await self._transaction.first(sa.select(ROUTES).where(ROUTES.c.route_id == route_id))
        if row is None:
            raise ObjectNotFound(what="route", name=route_id)
        return (await self._records([row]))[0]

    async def of_deployment(self, deployment_id: DeploymentId) -> Sequence[RouteRecord]:
        """See the port."""
        statement = sa.select(ROUTES).where(ROUTES.c.deployment_id == deployment_id).order_by(ROUTES.c.route_id)
        return await self._records(await self._transaction.fetch(statement))

    async def move(self, route: RouteRecord, trigger: RouteTrigger, change: Change) -> RouteRecord:
        """See the port."""
        route_id = route.spec.route_id
        row = await _locked(self._transaction, ROUTES, route_id, (route.status, route.version))
        after = ROUTE.after(route.status, trigger, by=change.by)
        entry = history.HistoryRow(route_id, row.history_sequence + 1, row.status, after.value, trigger.value)
        await _advance(self._transaction, ROUTES, row, entry, change=change)
        if after in ROUTE.terminal:
            # Its addresses become available to other routes.
            await self._transaction.execute(sa.delete(ENDPOINTS).where(ENDPOINTS.c.route_id == route_id))
        self._transaction.events.append(
            RouteMoved(
                at_ms=self._transaction.now_ms,
                route_id=route_id,
                before=route.status,
                after=after,
                trigger=trigger.value,
            )
        )
        return await self.get(route_id)

    async def set_endpoints(self, route: RouteRecord, endpoints: Sequence[Endpoint]) -> RouteRecord:
        """See the port."""
        route_id = route.spec.route_id
        replace(route.spec, endpoints=tuple(endpoints))  # validates before anything is written
        await _locked(self._transaction, ROUTES, route_id, (route.status, route.version))
        try:
            async with self._transaction.savepoint():
                await self._transaction.execute(sa.delete(ENDPOINTS).where(ENDPOINTS.c.route_id == route_id))
                await self._insert_endpoints(route_id, endpoints)
        except IntegrityError as error:
            raise Conflict(f"an address of route {route_id!r} belongs to another route") from error
        newer = sa.update(ROUTES).where(ROUTES.c.route_id == route_id).values(version=ROUTES.c.version + 1)
        await self._transaction.execute(newer)
        return await self.get(route_id)

    async def history(self, route_id: RouteId) -> Sequence[HistoryEntry]:
        """See the port."""
        return await history.read_history(self._transaction, ROUTE.name, route_id)

    async def _insert_endpoints(self, route_id: RouteId, endpoints: Sequence[Endpoint]) -> None:
        rows = [{"route_id": route_id, **to_plain(endpoint)} for endpoint in endpoints]
        if rows:
            await self._transaction.execute(sa.insert(ENDPOINTS), rows)

    async def _records(self, rows: Sequence[Row[Any]]) -> list[RouteRecord]:
        endpoints: dict[str, list[Endpoint]] = {row.route_id: [] for row in rows}
        statement = sa.select(ENDPOINTS).where(ENDPOINTS.c.route_id.in_(list(endpoints)))
        for row in await self._transaction.fetch(statement.order_by(ENDPOINTS.c.kernel_id)):
            endpoints[row.route_id].append(
                Endpoint(
                    kernel_id=KernelId(row.kernel_id),
                    agent_id=AgentId(row.agent_id),
                    port=row.port,
                    health=Health(row.health),
                    weight=row.weight,
                )
            )
        return [
            RouteRecord(
                spec=RouteSpec(RouteId(row.route_id), DeploymentId(row.deployment_id), tuple(endpoints[row.route_id])),
                status=RouteStatus(row.status),
                version=row.version,
            )
            for row in rows
        ]


async def _locked(transaction: Transaction, table: sa.Table, name: str, expected: tuple[str, int]) -> Row[Any]:
    key = next(iter(table.primary_key.columns))
    row = await transaction.first(sa.select(table).where(key == name).with_for_update())
    what = table.name.removesuffix("s")
    if row is None:
        raise ObjectNotFound(what=what, name=name)
    if (row.status, row.version) != expected:
        raise StaleVersion(
            what=what,
            name=name,
            expected=f"{expected[0]} (version {expected[1]})",
            found=f"{row.status} (version {row.version})",
        )
    return row


async def _advance(
    transaction: Transaction,
    table: sa.Table,
    row: Row[Any],
    entry: history.HistoryRow,
    *,
    change: Change,
    **values: Any,
) -> None:
    key = next(iter(table.primary_key.columns))
    await history.append(transaction, table.name.removesuffix("s"), [entry], change)
    written = await transaction.execute(
        sa.update(table)
        .where(key == entry.object_id, table.c.version == row.version)
        .values(status=entry.after, version=row.version + 1, history_sequence=entry.sequence, **values)
    )
    if written != 1:
        raise StaleVersion(what=table.name, name=entry.object_id, expected=row.version, found="another version")


def _spec_columns(spec: DeploymentSpec) -> dict[str, Any]:
    return {"replicas_desired": spec.replicas_desired, "body": msgspec.json.encode(to_plain(spec)).decode()}


def _deployment(row: Row[Any]) -> DeploymentRecord:
    return DeploymentRecord(
        spec=from_plain(DeploymentSpec, msgspec.json.decode(row.body), key="deployment"),
        status=DeploymentStatus(row.status),
        version=row.version,
    )
