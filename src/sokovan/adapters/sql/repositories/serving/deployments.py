"""Deployments and their revisions on SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Row
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.serving.deployment_events import newest_events
from sokovan.adapters.sql.repositories.serving.status_rows import StatusRows
from sokovan.adapters.sql.schema.tables import SCALING_GROUPS, SERVING
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict, IdempotencyConflict, ObjectNotFound, quoted
from sokovan.domain.events import DeploymentMoved, DeploymentScaled
from sokovan.domain.ids import DeploymentId, is_name
from sokovan.domain.lifecycle.deployment import DEPLOYMENT, DeploymentStatus, DeploymentTrigger
from sokovan.domain.plain_values import from_plain, to_plain
from sokovan.domain.records import Change, HistoryEntry
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.records import DeploymentRecord, RevisionRecord
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.ports.repositories.serving import DeploymentFilter
from sokovan.ports.repositories.sessions import RequestKey

_TABLE, _REVISIONS = SERVING.deployments, SERVING.revisions
_LIVE = _TABLE.c.ended_ms.is_(None)
# Every cycle runs it: it is compiled once.
_ALL_LIVE = sa.select(_TABLE).where(_LIVE).order_by(_TABLE.c.deployment_id)


class SqlDeployments:
    """Deployments on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._rows = StatusRows(transaction, DEPLOYMENT, _TABLE)

    async def create(
        self, spec: DeploymentSpec, revision: RevisionSpec, change: Change, *, request: RequestKey | None = None
    ) -> DeploymentRecord:
        """See the port."""
        earlier = None if request is None else await self.requested(request)
        if earlier is not None:
            return earlier
        await self._require_group(spec)
        now = self._transaction.now_ms
        values = {
            **_spec_columns(spec),
            "replicas_desired": max(1, spec.replicas_min) if spec.replicas_max else 0,
            "revision": 1,
            "holding": False,
            "request_key": None if request is None else request.key,
            "request_digest": None if request is None else request.digest,
            "created_ms": now,
            "since_ms": now,
            "place": self._transaction.number,
        }
        try:
            async with self._transaction.savepoint():
                await self._rows.insert(spec.deployment_id, values, change)
                await self._insert_revision(spec.deployment_id, 1, revision, change)
        except IntegrityError as error:
            raise Conflict(
                f"project {spec.owner.group} has a deployment {quoted(spec.name)} already",
                hint="choose another name, update that deployment, or delete it first",
            ) from error
        return await self.get(spec.deployment_id)

    async def requested(self, request: RequestKey) -> DeploymentRecord | None:
        """See the port."""
        statement = sa.select(_TABLE).where(_TABLE.c.access_key == request.scope, _TABLE.c.request_key == request.key)
        row = await self._transaction.first(statement)
        if row is None:
            return None
        if row.request_digest != request.digest:
            raise IdempotencyConflict(f"key {quoted(request.key)} was used for another deployment")
        return _record(row)

    async def get(self, deployment_id: DeploymentId) -> DeploymentRecord:
        """See the port."""
        return _record(await self._rows.get(deployment_id))

    async def named(self, text: str, wanted: DeploymentFilter) -> Sequence[DeploymentRecord]:
        """See the port."""
        if not is_name(text):
            return ()
        matching = _filtered(wanted)
        named = sa.and_(_TABLE.c.name == text, *matching)
        newest = sa.select(_TABLE).where(named, sa.not_(_LIVE)).order_by(_TABLE.c.place.desc()).limit(1)
        for statement in (
            sa.select(_TABLE).where(_TABLE.c.deployment_id == text, *matching),
            sa.select(_TABLE).where(named, _LIVE).order_by(_TABLE.c.place).limit(2),
            newest,
        ):
            rows = await self._transaction.fetch(statement)
            if rows:
                return [_record(row) for row in rows]
        return ()

    async def page(
        self, wanted: DeploymentFilter, *, limit: int, after: int | None = None
    ) -> Sequence[DeploymentRecord]:
        """See the port."""
        statement = sa.select(_TABLE).where(*_filtered(wanted)).order_by(_TABLE.c.place.desc()).limit(limit)
        if after is not None:
            statement = statement.where(_TABLE.c.place < after)
        return [_record(row) for row in await self._transaction.fetch(statement)]

    async def live(self) -> Sequence[DeploymentRecord]:
        """See the port."""
        return [_record(row) for row in await self._transaction.fetch(_ALL_LIVE)]

    async def count(self, user: str) -> int:
        """See the port."""
        row = await self._transaction.first(
            sa.select(sa.func.count().label("total")).select_from(_TABLE).where(_TABLE.c.user == user, _LIVE)
        )
        return 0 if row is None else int(row.total)

    async def move(self, deployment: DeploymentRecord, trigger: DeploymentTrigger, change: Change) -> DeploymentRecord:
        """See the port."""
        after = DEPLOYMENT.move(deployment.status, trigger, by=change.by).after
        if after not in DEPLOYMENT.terminal:
            return await self._move(deployment, trigger, change)
        moved = await self._move(deployment, trigger, change, ended_ms=self._transaction.now_ms)
        await self._forget_secrets(deployment.deployment_id)
        return moved

    async def _forget_secrets(self, deployment_id: DeploymentId) -> None:
        for one in await self.revisions(deployment_id):
            if one.spec.sealed:
                place = (_REVISIONS.c.deployment_id == deployment_id, _REVISIONS.c.number == one.number)
                body = _text(replace(one.spec, sealed=""))
                await self._transaction.execute(sa.update(_REVISIONS).where(*place).values(body=body))

    async def configure(self, deployment: DeploymentRecord, spec: DeploymentSpec, change: Change) -> DeploymentRecord:
        """See the port."""
        await self._require_group(spec)
        return await self._move(deployment, DeploymentTrigger.SCALE_REQUESTED, change, **_spec_columns(spec))

    async def scale(
        self, deployment: DeploymentRecord, replicas: int, change: Change, *, holding: bool = False
    ) -> DeploymentRecord:
        """See the port."""
        values = {"replicas_desired": replicas, "holding": holding}
        moved = await self._move(deployment, DeploymentTrigger.SCALED, change, **values)
        if replicas != deployment.replicas_desired:
            self._transaction.events.append(
                DeploymentScaled(
                    at_ms=self._transaction.now_ms,
                    deployment_id=deployment.deployment_id,
                    replicas_before=deployment.replicas_desired,
                    replicas_desired=replicas,
                )
            )
        return moved

    async def activate(self, deployment: DeploymentRecord, revision: int, change: Change) -> DeploymentRecord:
        """See the port."""
        return await self._move(deployment, DeploymentTrigger.REVISION_ACTIVATED, change, revision=revision)

    async def add_revision(
        self, deployment: DeploymentRecord, revision: RevisionSpec, change: Change
    ) -> RevisionRecord:
        """See the port."""
        deployment_id = deployment.deployment_id
        # The row of the deployment is locked by this, so that two writers do not take one number.
        await self._rows.change(deployment_id, (deployment.status.value, deployment.version))
        newest = sa.select(sa.func.max(_REVISIONS.c.number).label("number"))
        row = await self._transaction.first(newest.where(_REVISIONS.c.deployment_id == deployment_id))
        number = 1 if row is None else row.number + 1
        await self._insert_revision(deployment_id, number, revision, change)
        return await self.revision(deployment_id, number)

    async def revisions(self, deployment_id: DeploymentId) -> Sequence[RevisionRecord]:
        """See the port."""
        statement = sa.select(_REVISIONS).where(_REVISIONS.c.deployment_id == deployment_id)
        return [_revision(row) for row in await self._transaction.fetch(statement.order_by(_REVISIONS.c.number))]

    async def revision(self, deployment_id: DeploymentId, number: int) -> RevisionRecord:
        """See the port."""
        wanted = (_REVISIONS.c.deployment_id == deployment_id, _REVISIONS.c.number == number)
        row = await self._transaction.first(sa.select(_REVISIONS).where(*wanted))
        if row is None:
            raise ObjectNotFound(what="revision", name=str(number))
        return _revision(row)

    async def note(self, deployment_id: DeploymentId, change: Change) -> None:
        """See the port."""
        await history.note(self._transaction, DEPLOYMENT, _TABLE, ids=[deployment_id], change=change)

    async def history(self, deployment_id: DeploymentId) -> Sequence[HistoryEntry]:
        """See the port."""
        return await history.read_history(self._transaction, DEPLOYMENT.name, deployment_id)

    async def events(self, deployment_id: DeploymentId, *, limit: int) -> Sequence[tuple[str, HistoryEntry]]:
        """See the port."""
        return await newest_events(self._transaction, deployment_id, limit=limit)

    async def _move(
        self, deployment: DeploymentRecord, trigger: DeploymentTrigger, change: Change, **values: Any
    ) -> DeploymentRecord:
        expected = (deployment.status.value, deployment.version)
        moved = _record(await self._rows.move(deployment.deployment_id, expected, trigger, change, **values))
        if moved.status is not deployment.status:
            self._transaction.events.append(
                DeploymentMoved(
                    at_ms=self._transaction.now_ms,
                    deployment_id=deployment.deployment_id,
                    before=deployment.status,
                    after=moved.status,
                    trigger=trigger.value,
                )
            )
        return moved

    async def _insert_revision(
        self, deployment_id: DeploymentId, number: int, revision: RevisionSpec, change: Change
    ) -> None:
        row = {
            "deployment_id": deployment_id,
            "number": number,
            "created_ms": self._transaction.now_ms,
            "created_by": change.who,
            "body": _text(revision),
        }
        await self._transaction.execute(sa.insert(_REVISIONS), row)

    async def _require_group(self, spec: DeploymentSpec) -> None:
        if spec.scaling_group is None:
            return
        group = sa.select(SCALING_GROUPS.c.name).where(SCALING_GROUPS.c.name == spec.scaling_group)
        if await self._transaction.first(group) is None:
            raise ObjectNotFound(what="scaling group", name=spec.scaling_group)


def _filtered(wanted: DeploymentFilter) -> list[sa.ColumnElement[bool]]:
    named = {"user": wanted.user, "group": wanted.group, "domain": wanted.domain}
    conditions: list[sa.ColumnElement[bool]] = [_TABLE.c[column] == text for column, text in named.items() if text]
    return [*conditions, _LIVE] if wanted.live else conditions


def _spec_columns(spec: DeploymentSpec) -> dict[str, Any]:
    owner = spec.owner
    return {
        "name": spec.name,
        "user": owner.user,
        "group": owner.group,
        "domain": owner.domain,
        "access_key": owner.access_key,
        "scaling_group": spec.scaling_group,
        "body": _text(spec),
    }


def _text(value: object) -> str:
    return msgspec.json.encode(to_plain(value)).decode()


def _record(row: Row[Any]) -> DeploymentRecord:
    return DeploymentRecord(
        spec=from_plain(DeploymentSpec, msgspec.json.decode(row.body), key="deployment"),
        status=DeploymentStatus(row.status),
        version=row.version,
        replicas_desired=row.replicas_desired,
        revision=row.revision,
        holding=row.holding,
        created_ms=row.created_ms,
        since_ms=row.since_ms,
        ended_ms=row.ended_ms,
        place=row.place,
    )


def _revision(row: Row[Any]) -> RevisionRecord:
    return RevisionRecord(
        deployment_id=DeploymentId(row.deployment_id),
        number=row.number,
        spec=from_plain(RevisionSpec, msgspec.json.decode(row.body), key="revision"),
        created_ms=row.created_ms,
        created_by=row.created_by,
    )
