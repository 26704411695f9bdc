"""Observes the sessions of replicas, and ends replicas that are no longer wanted."""

from __future__ import annotations

from typing import NamedTuple

from sokovan.domain.lifecycle.durations import duration_text
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.replica import ReplicaStatus, ReplicaTrigger
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import KernelSummary, SessionRecord
from sokovan.domain.serving.engine import SERVICE_PORT
from sokovan.domain.serving.records import ReplicaRecord
from sokovan.domain.serving.replica import Endpoint
from sokovan.orchestrator.deployments.replica_targets import LATE, SMOKE_FAILED
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.ports.storage import UnitOfWork

SESSION_ENDED, REPLICA_READY = "session-ended", "kernel-running"
# So many smoke requests in a row that fail end a replica that is not ready yet.
SMOKE_FAILURES_MAX = 3
_ENDING = frozenset({ReplicaStatus.DRAINING, ReplicaStatus.STOPPING})
# How replicas end that are no longer wanted: those that serve drain first.
_END_BY = {
    ReplicaStatus.PENDING: ReplicaTrigger.STOP_REQUESTED,
    ReplicaStatus.STARTING: ReplicaTrigger.STOP_REQUESTED,
    ReplicaStatus.WARMING: ReplicaTrigger.STOP_REQUESTED,
    ReplicaStatus.ACTIVE: ReplicaTrigger.DRAIN_REQUESTED,
    ReplicaStatus.UNHEALTHY: ReplicaTrigger.DRAIN_REQUESTED,
}


class ReplicaMove(NamedTuple):
    """A transition of a replica, with its reason and its endpoint."""

    trigger: ReplicaTrigger
    code: str
    detail: str = ""
    endpoint: Endpoint | None = None


def observed(state: ServingState, replica: ReplicaRecord) -> ReplicaMove | None:
    """The transition that the session of a replica causes; None if there is none."""
    if replica.status is ReplicaStatus.PENDING:
        return None
    session = state.session_of(replica)
    if session is None or session.status in SESSION.terminal:
        trigger = ReplicaTrigger.SESSION_ENDED if replica.status in _ENDING else ReplicaTrigger.EXITED
        return ReplicaMove(trigger, *_why_ended(session))
    if session.status is SessionStatus.TERMINATING and not session.is_retried and replica.status not in _ENDING:
        return ReplicaMove(ReplicaTrigger.EXITED, *_why_ended(session))
    if replica.status is ReplicaStatus.STARTING:
        endpoint = _endpoint(session)
        return None if endpoint is None else ReplicaMove(ReplicaTrigger.KERNEL_RUNNING, REPLICA_READY, "", endpoint)
    if replica.status is not ReplicaStatus.WARMING:
        return None
    return _smoke_failed(state, replica) or _late(state, replica)


async def apply(writer: ServingWriter, replica: ReplicaRecord, move: ReplicaMove) -> bool:
    """Store a transition; a session that must not run any longer is ended with it."""
    change = writer.change(move.code, move.detail)

    async def work(unit: UnitOfWork) -> bool:
        moved = await unit.replicas.move(replica, move.trigger, change, endpoint=move.endpoint)
        if moved.status in {ReplicaStatus.STOPPING, ReplicaStatus.FAILED}:
            await writer.stop_session(unit, replica.session_id, change)
        return True

    return await writer.run(work)


async def end(writer: ServingWriter, replica: ReplicaRecord, code: str, detail: str = "") -> bool:
    """Let a replica end; one that ends already is left alone."""
    trigger = _END_BY.get(replica.status)
    return trigger is not None and await apply(writer, replica, ReplicaMove(trigger, code, detail))


def _endpoint(session: SessionRecord) -> Endpoint | None:
    """The address of a running session: its first kernel and the leased port."""
    kernel = session.kernels[0]
    port = kernel.host_ports.get(SERVICE_PORT)
    if session.status is not SessionStatus.RUNNING or kernel.status is not KernelStatus.RUNNING:
        return None
    return (
        None
        if kernel.agent_id is None or port is None
        else Endpoint(kernel.kernel_id, kernel.attempt, kernel.agent_id, port)
    )


def _why_ended(session: SessionRecord | None) -> tuple[str, str]:
    if session is None:
        return SESSION_ENDED, "its session is no longer stored"
    codes = KernelSummary.of(session.kernels).exit_codes
    exits = f"; exit code {codes[0]}" if codes else ""
    return (
        session.cause or SESSION_ENDED,
        f"session {session.spec.name}: {session.cause_detail or session.cause or 'ended'}{exits}",
    )


def _smoke_failed(state: ServingState, replica: ReplicaRecord) -> ReplicaMove | None:
    """The end of a replica whose engine says that it is ready and does not answer requests."""
    reports = state.reports_on(replica)
    failed = [one for one in reports if one.smoke_failures >= SMOKE_FAILURES_MAX]
    if not failed or any(one.healthy for one in reports):
        return None
    return ReplicaMove(ReplicaTrigger.STARTUP_EXPIRED, SMOKE_FAILED, failed[0].error)


def _late(state: ServingState, replica: ReplicaRecord) -> ReplicaMove | None:
    """The end of a replica that is not ready in time; without proxies it is unknown."""
    limit_s = state.revision_of(replica).spec.startup_timeout_s
    if not state.proxies or state.now_ms - replica.since_ms < limit_s * 1000:
        return None
    errors = [one.error for one in state.reports_on(replica) if one.error]
    detail = f"not ready after {duration_text(limit_s)}" + (f": {errors[0]}" if errors else "")
    return ReplicaMove(ReplicaTrigger.STARTUP_EXPIRED, LATE, detail)
