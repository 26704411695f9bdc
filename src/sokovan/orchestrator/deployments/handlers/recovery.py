"""Replaces replicas that stay unhealthy, and ends sessions without a replica."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.replica import ENDING, REPLICA, ReplicaPlace, ReplicaStatus, ReplicaTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.records import SessionSummary
from sokovan.domain.serving.records import ReplicaRecord
from sokovan.domain.session import SessionType
from sokovan.orchestrator.deployments.failing_replicas import ANSWERS_FAIL
from sokovan.orchestrator.deployments.replica_moves import ReplicaMove, apply
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.ports.repositories.sessions import SessionFilter, SessionPosition
from sokovan.ports.storage import UnitOfWork

STAYED_UNHEALTHY, ORPHANED = "stayed-unhealthy", "replica-ended"
REPLACE_AFTER_MS = (REPLICA.deadlines[ReplicaStatus.UNHEALTHY].seconds or 30) * 1000
# Every so often, sessions without a replica are searched; replicas that ended are kept for a week.
SWEEP_MS, KEPT_MS = 30_000, 7 * 24 * 3600 * 1000
_LIVE = frozenset(SessionStatus) - SESSION.terminal
_PAGE = 1000


class RecoveryHandler:
    """Restores what faults have left."""

    name = "recovery"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer
        self._swept_ms = 0

    async def handle(self, cycle: ServingState) -> bool:
        """Replace unhealthy replicas; sweep now and then."""
        overdue = [
            one
            for some in cycle.replicas.values()
            for one in some
            if one.status is ReplicaStatus.UNHEALTHY
            and (one.reason_code == ANSWERS_FAIL or cycle.now_ms - one.since_ms >= REPLACE_AFTER_MS)
        ]
        moved = await self._writer.each(self.name, overdue, self._replace)
        if cycle.now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = cycle.now_ms
            moved |= await self._sweep(cycle)
        return moved

    def clear(self) -> None:
        """Sweep again in the next term."""
        self._swept_ms = 0

    async def _replace(self, replica: ReplicaRecord) -> bool:
        if replica.reason_code == ANSWERS_FAIL:
            # Some of its answers may come whole: they are waited for, as in any drain.
            move = ReplicaMove(ReplicaTrigger.DRAIN_REQUESTED, ANSWERS_FAIL, replica.reason)
            return await apply(self._writer, replica, move)
        detail = f"unhealthy for {REPLACE_AFTER_MS // 1000} s: {replica.reason}"
        return await apply(self._writer, replica, ReplicaMove(ReplicaTrigger.REPLACED, STAYED_UNHEALTHY, detail))

    async def _sweep(self, state: ServingState) -> bool:
        """End sessions whose replica ended before it knew of them; remove old replicas."""
        known = {one.place: one for some in state.replicas.values() for one in some}
        # Read outside the write: a replica that has ended does not come back.
        orphans = await self._writer.read(lambda unit: _orphans(unit, known))
        change = self._writer.change(ORPHANED, "its replica has ended")

        async def work(unit: UnitOfWork) -> bool:
            await unit.replicas.expire(before_ms=unit.now_ms - KEPT_MS, limit=_PAGE)
            return bool(orphans) and bool(await unit.sessions.set_goals(orphans, Goal.STOP, change))

        return await self._writer.run(work)


async def _orphans(unit: UnitOfWork, known: Mapping[ReplicaPlace, ReplicaRecord]) -> list[SessionId]:
    wanted = SessionFilter(statuses=_LIVE, session_type=SessionType.INFERENCE.value)
    orphans: list[SessionId] = []
    after: SessionPosition | None = None
    while sessions := await unit.sessions.summaries(wanted, limit=_PAGE, after=after):
        orphans += [one.session_id for one in sessions if _is_orphan(one, known)]
        after = SessionPosition(sessions[-1].place)
    return orphans


def _is_orphan(session: SessionSummary, known: Mapping[ReplicaPlace, ReplicaRecord]) -> bool:
    if session.goal is not Goal.RUN:
        return False
    replica = None if session.spec.replica is None else known.get(session.spec.replica)
    return replica is None or replica.status in ENDING
