"""Retries deployments that are late, and says why they are, once per deadline."""

from __future__ import annotations

from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.deployment import DEPLOYMENT, DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.durations import duration_text
from sokovan.domain.serving.records import DeploymentRecord
from sokovan.orchestrator.deployments.deployment_why import explain_deployment
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.ports.storage import UnitOfWork

NOT_READY = "not-ready"
RETRY_AFTER_MS = {
    status: (deadline.seconds or 60) * 1000
    for status, deadline in DEPLOYMENT.deadlines.items()
    if deadline.on_expiry is DeploymentTrigger.RETRIED
}


class DeadlineHandler:
    """Repeats a reason once per deadline.

    Other handlers try in each cycle, so that the status stays as it is.
    """

    name = "deployment-deadlines"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer
        # When each overdue deployment was retried last, or else when its status began.
        self._retried_ms: dict[DeploymentId, int] = {}

    async def handle(self, cycle: ServingState) -> bool:
        """Retry all overdue deployments."""
        overdue = [
            one
            for one in cycle.deployments.values()
            if one.status in RETRY_AFTER_MS and cycle.now_ms - one.since_ms >= RETRY_AFTER_MS[one.status]
        ]
        known = {one.deployment_id for one in overdue}
        self._retried_ms = {key: at_ms for key, at_ms in self._retried_ms.items() if key in known}
        return await self._writer.each(self.name, overdue, lambda one: self._retry(cycle, one))

    def clear(self) -> None:
        """Read the times from the history in the next term."""
        self._retried_ms.clear()

    async def _retry(self, state: ServingState, deployment: DeploymentRecord) -> bool:
        key, limit_ms = deployment.deployment_id, RETRY_AFTER_MS[deployment.status]
        if key not in self._retried_ms:
            self._retried_ms[key] = await self._last_retry_ms(deployment)
        if state.now_ms - self._retried_ms[key] < limit_ms:
            return False
        passed_s = (state.now_ms - deployment.since_ms) // 1000
        detail = f"not ready for {duration_text(passed_s)}: {_reason(state, deployment)}"
        change = self._writer.change(NOT_READY, detail)

        async def work(unit: UnitOfWork) -> bool:
            await unit.deployments.move(deployment, DeploymentTrigger.RETRIED, change)
            return True

        moved = await self._writer.run(work)
        self._retried_ms[key] = state.now_ms
        return moved

    async def _last_retry_ms(self, deployment: DeploymentRecord) -> int:
        """An earlier leader may have retried it."""
        entries = await self._writer.read(lambda unit: unit.deployments.history(deployment.deployment_id))
        retried = [one.at_ms for one in entries if one.trigger == DeploymentTrigger.RETRIED]
        return max([deployment.since_ms, *retried])


def _reason(state: ServingState, deployment: DeploymentRecord) -> str:
    """Why the replicas do not serve, with the verdict on the first one that waits."""
    if deployment.status is DeploymentStatus.PENDING:
        return "its route could not be created"
    key = deployment.deployment_id
    failed = state.failures.get((key, deployment.revision), ())
    replicas = [*state.replicas_of(key), *failed]
    said = explain_deployment(deployment, replicas, state.proxies, now_ms=state.now_ms)
    for replica, wait in said.waiting:
        verdict = "" if replica.session_id is None else state.verdicts.get(replica.session_id, "")
        return f"{said.summary}: {verdict or wait}"
    return said.summary
