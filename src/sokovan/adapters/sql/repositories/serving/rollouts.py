"""Rollouts on SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.serving.status_rows import StatusRows
from sokovan.adapters.sql.schema.tables import SERVING
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict
from sokovan.domain.events import RolloutMoved
from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.rollout import ROLLOUT, RolloutStatus, RolloutTrigger
from sokovan.domain.records import Change, HistoryEntry
from sokovan.domain.serving.records import RolloutRecord
from sokovan.domain.serving.rollout import RolloutStrategy

_TABLE = SERVING.rollouts
# Every cycle runs it: it is compiled once.
_ALL_LIVE = sa.select(_TABLE).where(sa.text("status NOT IN ('completed', 'rolled_back')")).order_by(_TABLE.c.rollout_id)


class SqlRollouts:
    """Rollouts on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._rows = StatusRows(transaction, ROLLOUT, _TABLE)

    async def create(self, rollout: RolloutRecord, change: Change) -> RolloutRecord:
        """See the port."""
        now = self._transaction.now_ms
        values = {
            "deployment_id": rollout.deployment_id,
            "revision_from": rollout.revision_from,
            "revision_to": rollout.revision_to,
            "strategy": rollout.strategy.value,
            "reason": rollout.reason,
            **dict.fromkeys(("started_ms", "since_ms", "step_since_ms"), now),
            **_progress(rollout),
        }
        try:
            await self._rows.insert(rollout.rollout_id, values, change)
        except IntegrityError as error:
            raise Conflict(
                "a rollout of this deployment is under way",
                hint="wait for its end, or abort it: `sokovan deployment rollback NAME`",
            ) from error
        return _record(await self._rows.get(rollout.rollout_id))

    async def live(self, deployment_id: DeploymentId | None = None) -> Sequence[RolloutRecord]:
        """See the port."""
        statement = _ALL_LIVE
        if deployment_id is not None:
            statement = statement.where(_TABLE.c.deployment_id == deployment_id)
        return [_record(row) for row in await self._transaction.fetch(statement)]

    async def newest(self, deployment_id: DeploymentId, *, limit: int) -> Sequence[RolloutRecord]:
        """See the port."""
        statement = sa.select(_TABLE).where(_TABLE.c.deployment_id == deployment_id)
        statement = statement.order_by(_TABLE.c.started_ms.desc(), _TABLE.c.rollout_id.desc()).limit(limit)
        return [_record(row) for row in await self._transaction.fetch(statement)]

    async def move(self, rollout: RolloutRecord, trigger: RolloutTrigger, change: Change) -> RolloutRecord:
        """See the port."""
        values: dict[str, Any] = {**_progress(rollout), "step_since_ms": self._transaction.now_ms}
        if change.detail:
            values["reason"] = change.detail
        expected = (rollout.status.value, rollout.version)
        moved = _record(await self._rows.move(rollout.rollout_id, expected, trigger, change, **values))
        self._transaction.events.append(
            RolloutMoved(
                at_ms=self._transaction.now_ms,
                rollout_id=rollout.rollout_id,
                deployment_id=rollout.deployment_id,
                before=rollout.status,
                after=moved.status,
                trigger=trigger.value,
            )
        )
        return moved

    async def progress(self, rollout: RolloutRecord) -> RolloutRecord:
        """See the port."""
        expected = (rollout.status.value, rollout.version)
        return _record(await self._rows.change(rollout.rollout_id, expected, **_progress(rollout)))

    async def history(self, rollout_id: str) -> Sequence[HistoryEntry]:
        """See the port."""
        return await history.read_history(self._transaction, ROLLOUT.name, rollout_id)


def _progress(rollout: RolloutRecord) -> dict[str, int]:
    return {name: getattr(rollout, name) for name in ("surge", "unavailable", "step", "weight_new")}


def _record(row: Row[Any]) -> RolloutRecord:
    return RolloutRecord(
        rollout_id=row.rollout_id,
        deployment_id=DeploymentId(row.deployment_id),
        revision_from=row.revision_from,
        revision_to=row.revision_to,
        strategy=RolloutStrategy(row.strategy),
        status=RolloutStatus(row.status),
        version=row.version,
        surge=row.surge,
        unavailable=row.unavailable,
        step=row.step,
        weight_new=row.weight_new,
        started_ms=row.started_ms,
        since_ms=row.since_ms,
        step_since_ms=row.step_since_ms,
        reason=row.reason,
    )
