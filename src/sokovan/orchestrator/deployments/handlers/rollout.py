"""Carries rollouts from one revision to another, or back."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.errors import SokovanError
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.durations import duration_text
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.lifecycle.rollout import RolloutStatus, RolloutTrigger
from sokovan.domain.serving.records import DeploymentRecord, RolloutRecord
from sokovan.domain.serving.rollout import RolloutAction, RolloutStrategy, WhenFull, worse
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.orchestrator.deployments.replica_targets import active, rollout_decision
from sokovan.orchestrator.deployments.rollout_traffic import RolloutTraffic
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.explain.explanations import When
from sokovan.orchestrator.sessions.explain.plan import DryRunUnavailable
from sokovan.ports.storage import UnitOfWork

FULL, BEGUN, FINISHED = "no-room-for-surge", "rollout-begun", "rollout-finished"
_TRIGGERS = {
    RolloutAction.STEP: RolloutTrigger.STEPPED,
    RolloutAction.AWAIT: RolloutTrigger.PROMOTION_DUE,
    RolloutAction.FINISH: RolloutTrigger.FINISHED,
    RolloutAction.FAIL: RolloutTrigger.FAILED,
    RolloutAction.RESTORED: RolloutTrigger.RESTORED,
}
_WAITING = RolloutStatus.AWAITING_PROMOTION


class RolloutHandler:
    """Plans rollouts by asking the scheduling core, and steps them as the policy says."""

    name = "rollout"

    def __init__(self, writer: ServingWriter, controller: SchedulingController, requests: ReplicaRequests) -> None:
        self._writer, self._controller, self._requests = writer, controller, requests
        self._traffic = RolloutTraffic()

    async def handle(self, cycle: ServingState) -> bool:
        """Step all rollouts."""
        live = [one for one in cycle.rollouts.values() if one.deployment_id in cycle.deployments]
        self._traffic.keep({one.rollout_id for one in live})
        return await self._writer.each(self.name, live, lambda one: self._step(cycle, one))

    def clear(self) -> None:
        """Forget the counters of an earlier term."""
        self._traffic.keep(())

    async def _step(self, state: ServingState, rollout: RolloutRecord) -> bool:
        deployment = state.deployments[rollout.deployment_id]
        if deployment.status is DeploymentStatus.DESTROYING:
            return False
        reason = worse(*self._traffic.sides(state, rollout)) if deployment.spec.rollout.analysis else ""
        if rollout.status is RolloutStatus.PLANNING:
            return await self._plan(state, deployment, rollout)
        decision = rollout_decision(state, deployment, rollout, worse=reason)
        weighed = replace(rollout, weight_new=decision.weight_new)
        if rollout.status is _WAITING:
            return await self._promote_when_due(state, deployment, rollout)
        if decision.action is RolloutAction.STAY:
            if weighed == rollout:
                return False
            await self._writer.run(lambda unit: unit.rollouts.progress(weighed))
            return True
        stepped = replace(weighed, step=weighed.step + (decision.action is RolloutAction.STEP))
        return await self._move(deployment, stepped, _TRIGGERS[decision.action], decision.reason)

    async def _promote_when_due(
        self, state: ServingState, deployment: DeploymentRecord, rollout: RolloutRecord
    ) -> bool:
        after_s = deployment.spec.rollout.promote_after_s
        if after_s is None or state.now_ms - rollout.since_ms < after_s * 1000:
            return False
        return await self._move(deployment, rollout, RolloutTrigger.PROMOTED, f"after {duration_text(after_s)}")

    async def _plan(self, state: ServingState, deployment: DeploymentRecord, rollout: RolloutRecord) -> bool:
        """Begin, if there is room for the surge; else as `when_full` says."""
        policy = deployment.spec.rollout
        surges = rollout.surge > 0 and deployment.replicas_desired > 0
        if not surges or await self._has_room(state, deployment, rollout):
            return await self._move(deployment, rollout, RolloutTrigger.PLANNED, "")
        serving = len(active(state.replicas_of(deployment.deployment_id, rollout.revision_from)))
        match policy.when_full:
            case WhenFull.WAIT:
                change = self._writer.change(FULL, "the rollout waits for room for an additional replica")
                await self._writer.run(lambda unit: unit.deployments.note(deployment.deployment_id, change))
                return False
            case WhenFull.REPLACE if policy.strategy is RolloutStrategy.ROLLING and serving > 1:
                reason = "there is no room for an additional replica: one is replaced at a time"
                # Replicas that find no room are unavailable already, and must not keep one from being replaced.
                missing = max(0, deployment.replicas_desired - serving)
                planned = replace(rollout, surge=0, unavailable=1 + missing)
                return await self._move(deployment, planned, RolloutTrigger.PLANNED, reason)
            case _:
                reason = "there is no room for an additional replica"
                return await self._move(deployment, rollout, RolloutTrigger.FAILED, reason)

    async def _has_room(self, state: ServingState, deployment: DeploymentRecord, rollout: RolloutRecord) -> bool:
        """Whether the scheduling core would start one more replica now."""
        spec, revision = deployment.spec, state.revisions[rollout.deployment_id, rollout.revision_to].spec
        place = ReplicaPlace(rollout.deployment_id, rollout.revision_to, 0, 1)
        request = replace(self._requests.request(spec, revision, place, ""), name="")
        try:
            planned = await self._controller.plan(request, Caller(owner=spec.owner, groups=(spec.owner.group,)))
        except DryRunUnavailable:
            return True
        except SokovanError:
            return True  # the first replica fails with the reason
        return planned.would_start is When.NOW

    async def _move(
        self, deployment: DeploymentRecord, rollout: RolloutRecord, trigger: RolloutTrigger, reason: str
    ) -> bool:
        change = self._writer.change(trigger.value.replace("_", "-"), reason)

        async def work(unit: UnitOfWork) -> bool:
            moved = await unit.rollouts.move(rollout, trigger, change)
            if moved.status is RolloutStatus.COMPLETED:
                detail = f"revision {rollout.revision_to} serves"
                await unit.deployments.activate(deployment, rollout.revision_to, self._writer.change(FINISHED, detail))
            elif trigger in {RolloutTrigger.FAILED, RolloutTrigger.PLANNED} and reason:
                await unit.deployments.note(deployment.deployment_id, change)
            return True

        return await self._writer.run(work)
