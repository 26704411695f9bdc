"""Replicas and rollouts on SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Row
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.serving.status_rows import StatusRows
from sokovan.adapters.sql.schema.tables import HISTORIES, SERVING
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.errors import Conflict
from sokovan.domain.events import ReplicaMoved
from sokovan.domain.ids import DeploymentId, ReplicaId, SessionId
from sokovan.domain.lifecycle.replica import REPLICA, ReplicaPlace, ReplicaStatus, ReplicaTrigger
from sokovan.domain.plain_values import from_plain, to_plain
from sokovan.domain.records import Change, HistoryEntry
from sokovan.domain.serving.records import ReplicaRecord
from sokovan.domain.serving.replica import Endpoint

_TABLE = SERVING.replicas
_PLACE = (_TABLE.c.deployment_id, _TABLE.c.revision, _TABLE.c.ordinal, _TABLE.c.attempt)
# A literal: a database uses a partial index only if the query visibly implies its condition.
_LIVE = sa.text("status NOT IN ('failed', 'gone')")
# Every cycle runs these: they are compiled once.
_ALL_LIVE = sa.select(_TABLE).where(_LIVE).order_by(*_PLACE)
_FAILED = (
    sa.select(_TABLE)
    .where(_TABLE.c.status == ReplicaStatus.FAILED.value, _TABLE.c.since_ms >= sa.bindparam("failed_since_ms"))
    .order_by(_TABLE.c.since_ms, _TABLE.c.replica_id)
)


class SqlReplicas:
    """Replicas on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._rows = StatusRows(transaction, REPLICA, _TABLE)

    async def create(self, replica_id: ReplicaId, place: ReplicaPlace, secret: str, change: Change) -> ReplicaRecord:
        """See the port."""
        values = {
            **to_plain(place),
            "secret": secret,
            "reason_code": "",
            "reason": "",
            "since_ms": self._transaction.now_ms,
        }
        try:
            await self._rows.insert(replica_id, values, change)
        except IntegrityError as error:
            raise Conflict(f"replica {place.key} exists already") from error
        return await self.get(replica_id)

    async def get(self, replica_id: ReplicaId) -> ReplicaRecord:
        """See the port."""
        return _record(await self._rows.get(replica_id))

    async def live(self, deployment_id: DeploymentId | None = None) -> Sequence[ReplicaRecord]:
        """See the port."""
        statement = _ALL_LIVE
        if deployment_id is not None:
            statement = statement.where(_TABLE.c.deployment_id == deployment_id)
        return [_record(row) for row in await self._transaction.fetch(statement)]

    async def newest(self, deployment_id: DeploymentId, *, limit: int) -> Sequence[ReplicaRecord]:
        """See the port."""
        statement = sa.select(_TABLE).where(_TABLE.c.deployment_id == deployment_id)
        statement = statement.order_by(_TABLE.c.since_ms.desc(), _TABLE.c.replica_id).limit(limit)
        return [_record(row) for row in await self._transaction.fetch(statement)]

    async def attempts(self, deployment_id: DeploymentId) -> Mapping[tuple[int, int], int]:
        """See the port."""
        place = (_TABLE.c.revision, _TABLE.c.ordinal)
        statement = sa.select(*place, sa.func.max(_TABLE.c.attempt).label("last"))
        statement = statement.where(_TABLE.c.deployment_id == deployment_id).group_by(*place)
        return {(row.revision, row.ordinal): row.last for row in await self._transaction.fetch(statement)}

    async def failures(self, *, since_ms: int) -> Mapping[tuple[DeploymentId, int], Sequence[ReplicaRecord]]:
        """See the port."""
        found: dict[tuple[DeploymentId, int], list[ReplicaRecord]] = {}
        for record in map(_record, await self._transaction.fetch(_FAILED, {"failed_since_ms": since_ms})):
            found.setdefault((record.place.deployment_id, record.place.revision), []).append(record)
        return found

    async def move(
        self,
        replica: ReplicaRecord,
        trigger: ReplicaTrigger,
        change: Change,
        *,
        session_id: SessionId | None = None,
        endpoint: Endpoint | None = None,
    ) -> ReplicaRecord:
        """See the port."""
        values: dict[str, Any] = {"reason_code": change.code, "reason": change.detail}
        if session_id is not None:
            values["session_id"] = session_id
        if endpoint is not None:
            values["endpoint"] = msgspec.json.encode(to_plain(endpoint)).decode()
        expected = (replica.status.value, replica.version)
        moved = _record(await self._rows.move(replica.replica_id, expected, trigger, change, **values))
        self._transaction.events.append(
            ReplicaMoved(
                at_ms=self._transaction.now_ms,
                replica_id=replica.replica_id,
                deployment_id=replica.place.deployment_id,
                before=replica.status,
                after=moved.status,
                trigger=trigger.value,
            )
        )
        return moved

    async def history(self, replica_id: ReplicaId) -> Sequence[HistoryEntry]:
        """See the port."""
        return await history.read_history(self._transaction, REPLICA.name, replica_id)

    async def expire(self, *, before_ms: int, limit: int) -> int:
        """See the port."""
        ended = [status.value for status in REPLICA.terminal]
        # Of each place the last attempt stays: its number must not be given again.
        later = _TABLE.alias("later")
        is_last = ~sa.exists().where(
            later.c.deployment_id == _TABLE.c.deployment_id,
            later.c.revision == _TABLE.c.revision,
            later.c.ordinal == _TABLE.c.ordinal,
            later.c.attempt > _TABLE.c.attempt,
        )
        old = sa.select(_TABLE.c.replica_id).where(
            _TABLE.c.status.in_(ended), _TABLE.c.since_ms < before_ms, sa.not_(is_last)
        )
        ids = [row.replica_id for row in await self._transaction.fetch(old.limit(limit))]
        wanted, bound = sa.select(ids_table(self._transaction.postgresql).c.id), bound_ids(self._transaction, ids)
        entries = HISTORIES[REPLICA.name]
        await self._transaction.execute(sa.delete(_TABLE).where(_TABLE.c.replica_id.in_(wanted)), bound)
        await self._transaction.execute(sa.delete(entries).where(entries.c.object_id.in_(wanted)), bound)
        return len(ids)


def _record(row: Row[Any]) -> ReplicaRecord:
    endpoint = None if row.endpoint is None else from_plain(Endpoint, msgspec.json.decode(row.endpoint), key="endpoint")
    return ReplicaRecord(
        replica_id=ReplicaId(row.replica_id),
        place=ReplicaPlace(DeploymentId(row.deployment_id), row.revision, row.ordinal, row.attempt),
        status=ReplicaStatus(row.status),
        version=row.version,
        secret=row.secret,
        since_ms=row.since_ms,
        session_id=None if row.session_id is None else SessionId(row.session_id),
        endpoint=endpoint,
        reason_code=row.reason_code,
        reason=row.reason,
    )
