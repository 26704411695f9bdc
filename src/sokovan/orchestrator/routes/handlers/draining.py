"""Ends drains: when no proxy uses a replica any more, or the time is over."""

from __future__ import annotations

from sokovan.domain.lifecycle.durations import duration_text
from sokovan.domain.lifecycle.replica import ReplicaStatus, ReplicaTrigger
from sokovan.domain.serving.records import ReplicaRecord
from sokovan.orchestrator.deployments.failing_replicas import ANSWERS_FAIL
from sokovan.orchestrator.deployments.replica_moves import ReplicaMove, apply
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.orchestrator.routes.table_entries import entry_of

DRAINED, DRAIN_EXPIRED = "drained", "drain-timeout"


class DrainingHandler:
    """DRAINING to STOPPING, once every live proxy uses a table without it."""

    name = "draining"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer

    async def handle(self, cycle: ServingState) -> bool:
        """End all drains that are over."""
        draining = [one for some in cycle.replicas.values() for one in some if one.status is ReplicaStatus.DRAINING]

        async def finish(replica: ReplicaRecord) -> bool:
            move = drain_move(cycle, replica)
            if move is not None and replica.reason_code == ANSWERS_FAIL:
                # It counts as a failure of its revision, so that attempts have an end.
                move = ReplicaMove(ReplicaTrigger.REPLACED, ANSWERS_FAIL, replica.reason)
            return move is not None and await apply(self._writer, replica, move)

        return await self._writer.each(self.name, draining, finish)

    def clear(self) -> None:
        """Nothing is kept."""


def drain_move(state: ServingState, replica: ReplicaRecord) -> ReplicaMove | None:
    """The end of a drain; None while requests may still come or are under way."""
    outstanding = sum(report.outstanding for report in state.reports_on(replica))
    if _is_out_of_use(state, replica) and not outstanding:
        return ReplicaMove(ReplicaTrigger.DRAINED, DRAINED, "no request is under way")
    limit_s = state.revision_of(replica).spec.drain_timeout_s
    if state.now_ms - replica.since_ms < limit_s * 1000:
        return None
    detail = f"{outstanding} requests were under way after {duration_text(limit_s)}"
    return ReplicaMove(ReplicaTrigger.DRAIN_EXPIRED, DRAIN_EXPIRED, detail)


def _is_out_of_use(state: ServingState, replica: ReplicaRecord) -> bool:
    """Whether a table that sends it nothing is published, and acknowledged by all."""
    route = state.routes.get(replica.place.deployment_id)
    if route is None or replica.endpoint is None or not route.entry:
        return True
    endpoint_id = replica.endpoint.endpoint_id
    used = any(one.endpoint_id == endpoint_id and one.state != "DRAINING" for one in entry_of(route.entry).endpoints)
    return not used and state.is_acknowledged(route.table_version)
