"""Applies the health verdicts of proxies to replicas and routes."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.domain.lifecycle.replica import ReplicaStatus, ReplicaTrigger
from sokovan.domain.lifecycle.route import RouteStatus, RouteTrigger
from sokovan.domain.serving.records import EndpointObservation, ReplicaRecord, RouteRecord
from sokovan.orchestrator.deployments.failing_replicas import ANSWERS_FAIL, failing_replicas
from sokovan.orchestrator.deployments.replica_moves import ReplicaMove, apply
from sokovan.orchestrator.deployments.replica_targets import active
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.orchestrator.routes.port_ownership import PortOwners
from sokovan.ports.storage import UnitOfWork

CHECKS_PASSED, CHECKS_FAILED, STALLED = "checks-passed", "checks-failed", "stalled"
ALL_UNHEALTHY = "no-healthy-endpoint"
PORT_TAKEN = "port-taken"
# An engine may begin to listen again while it starts, so one answer of its agent is not enough.
REFUSALS_MAX = 3


class HealthHandler:
    """A replica is healthy if any proxy that reported lately says so.

    Proxies count successes and failures; without a proxy nothing changes. Before a replica
    serves, its agent must confirm that its kernel, and no other process, listens at its port;
    agents with a data listener look at that for each connection.
    """

    name = "health"

    def __init__(self, writer: ServingWriter, owners: PortOwners) -> None:
        self._writer, self._owners = writer, owners
        self._refusals: dict[str, int] = {}

    async def handle(self, cycle: ServingState) -> bool:
        """Apply all verdicts."""
        replicas = [one for some in cycle.replicas.values() for one in some]
        moves = [(one, move) for one in replicas if (move := health_move(one, cycle.reports_on(one))) is not None]
        if not moves:
            moves = answer_moves(cycle)
        problems = await self._problems(cycle, moves)

        async def judge(pair: tuple[ReplicaRecord, ReplicaMove]) -> bool:
            move = self._confirmed(*pair, problems)
            return move is not None and await apply(self._writer, pair[0], move)

        moved = await self._writer.each(self.name, moves, judge)
        if moved:
            return True
        return await self._writer.each(self.name, cycle.routes.values(), lambda one: self._route(cycle, one))

    def clear(self) -> None:
        """Forget what agents refused."""
        self._refusals.clear()

    async def _problems(
        self, cycle: ServingState, moves: list[tuple[ReplicaRecord, ReplicaMove]]
    ) -> Mapping[str, str | None]:
        """For endpoints that would serve now and are asked about: the answers of their agents.

        None stands for an agent that did not answer.
        """
        asked = [
            one.endpoint
            for one, move in moves
            if move.trigger is ReplicaTrigger.CHECKS_PASSED
            and one.endpoint is not None
            and one.endpoint.agent_id not in cycle.data_addresses
        ]
        answers = await self._owners(asked) if asked else {}
        found = {one.endpoint_id: answers.get(one.endpoint_id) for one in asked}
        self._refusals = {name: self._refusals.get(name, 0) + 1 for name, problem in found.items() if problem}
        return found

    def _confirmed(
        self, replica: ReplicaRecord, move: ReplicaMove, problems: Mapping[str, str | None]
    ) -> ReplicaMove | None:
        """The transition, if the agent has confirmed it; the end of a replica without its port."""
        name = "" if replica.endpoint is None else replica.endpoint.endpoint_id
        problem = problems.get(name, "")
        if move.trigger is not ReplicaTrigger.CHECKS_PASSED or problem == "":
            return move
        if problem and replica.status is ReplicaStatus.WARMING and self._refusals[name] >= REFUSALS_MAX:
            return ReplicaMove(ReplicaTrigger.STARTUP_EXPIRED, PORT_TAKEN, problem)
        return None

    async def _route(self, state: ServingState, route: RouteRecord) -> bool:
        """RUNNING and ERROR follow whether any endpoint serves, if any is desired."""
        deployment = state.deployments.get(route.spec.deployment_id)
        serves = bool(active(state.replicas_of(route.spec.deployment_id)))
        wanted = deployment is not None and deployment.replicas_desired > 0
        if route.status is RouteStatus.RUNNING and not serves and wanted:
            trigger, change = RouteTrigger.HEALTH_FAILED, self._writer.change(ALL_UNHEALTHY)
        elif route.status is RouteStatus.ERROR and serves:
            trigger, change = RouteTrigger.ENDPOINT_HEALTHY, self._writer.change(CHECKS_PASSED)
        else:
            return False

        async def work(unit: UnitOfWork) -> bool:
            await unit.routes.move(route, trigger, change)
            return True

        return await self._writer.run(work)


def answer_moves(state: ServingState) -> list[tuple[ReplicaRecord, ReplicaMove]]:
    """The transitions of replicas that pass their checks and fail their answers."""
    if not any(one.failing for proxy in state.proxies for one in proxy.endpoints.values()):
        return []
    moves: list[tuple[ReplicaRecord, ReplicaMove]] = []
    for deployment_id, number in state.revisions:
        failed = [one.since_ms for one in state.failures.get((deployment_id, number), ())]
        found = failing_replicas(
            state.replicas_of(deployment_id, number), state.proxies, failed_at_ms=failed, now_ms=state.now_ms
        )
        moves += [
            (one.replica, ReplicaMove(ReplicaTrigger.CHECKS_FAILED, ANSWERS_FAIL, one.detail))
            for one in found
            if not one.kept
        ]
    return moves


def health_move(replica: ReplicaRecord, reports: list[EndpointObservation]) -> ReplicaMove | None:
    """The transition that the verdicts of proxies cause; None if there is none."""
    healthy = any(one.healthy and not one.stalled for one in reports)
    unhealthy = not healthy and any(one.healthy is False or one.stalled for one in reports)
    if replica.status is ReplicaStatus.UNHEALTHY and replica.reason_code == ANSWERS_FAIL:
        return None  # its checks have passed all the time
    if healthy and replica.status in {ReplicaStatus.WARMING, ReplicaStatus.UNHEALTHY}:
        return ReplicaMove(ReplicaTrigger.CHECKS_PASSED, CHECKS_PASSED)
    if unhealthy and replica.status is ReplicaStatus.ACTIVE:
        stalled = any(one.stalled for one in reports)
        errors = [one.error for one in reports if one.error]
        detail = errors[0] if errors else "no byte came for a minute" if stalled else "its checks fail"
        return ReplicaMove(ReplicaTrigger.CHECKS_FAILED, STALLED if stalled else CHECKS_FAILED, detail)
    return None
