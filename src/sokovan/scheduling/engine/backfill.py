"""The action *backfill*: places best-effort kernels (no slots requested).

Takes pending sessions and the CycleContext. Gives placements in an AllocateOutcome.
Only status, architecture, labels and the kernel limits of an agent count, and how many
such kernels the user runs. Sessions go by priority and rank, kernels by priority; one
that does not fit does not stop the next. Owner limits, gang minimums and topology hold as for every kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.domain.cluster.topology import ROOT
from sokovan.domain.session import TopologyMode
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.allocate import AllocateOutcome
from sokovan.scheduling.engine.gang import CycleContext, KernelPlacer
from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.extensions import PluginFailed
from sokovan.scheduling.plan import Placement
from sokovan.scheduling.trace import Code


class Backfill:
    """Places best-effort kernels."""

    def __init__(self, context: CycleContext, admission: SessionAdmission, outcome: AllocateOutcome) -> None:
        self._context, self._admission, self._outcome = context, admission, outcome

    def run(self, sessions: Iterable[PendingSession]) -> None:
        """Place the best-effort kernels of every session that is not refused."""
        candidates = [pending for pending in sessions if pending.best_effort]
        for pending in sorted(candidates, key=lambda pending: (-pending.session.priority, pending.rank)):
            if pending.reason is not None and pending.reason.code is not None and not pending.placed:
                continue
            try:
                refused = None if pending.placed or pending.reserved else self._admission.objection(pending)
                if refused is None:
                    self._serve(pending)
                else:
                    pending.reason = refused
            except PluginFailed as failed:
                pending.reason = PendingReason(Code.PLUGIN_FAILED, str(failed))

    def _serve(self, pending: PendingSession) -> None:
        """Place the kernels if the session is ready with them."""
        statement = Statement(self._context.workspace, self._context.choice)
        left = self._context.best_effort_left(pending.session)
        fits, most = self._fits(pending, statement, later=False)
        if fits:
            self._commit(pending, statement)
        elif pending.reason is None:
            limited = left < len(pending.best_effort)
            pending.reason = self._context.best_effort_limit(pending.session) if limited else _reason(pending, most)

    def fits_later(self, pending: PendingSession, statement: Statement) -> bool:
        """Whether the session is ready with kernels placed or waiting for released room."""
        return self._fits(pending, statement, later=True)[0]

    def _fits(self, pending: PendingSession, statement: Statement, *, later: bool) -> tuple[bool, int]:
        """Try one range of agents after another; also the most kernels that fit in one."""
        if self._context.calendar is not None:
            # Agents that are booked before its end are not for it, however little it asks for.
            self._context.calendar.prepare(pending, holding=True)
        placer = KernelPlacer(pending, self._context, statement)
        placer.reserves_best_effort = later
        batches = sorted(pending.best_effort, key=lambda batch: -batch.kernels[0].priority)
        most, left = 0, self._context.best_effort_left(pending.session)

        def fill(agents: range) -> bool:
            nonlocal most
            for batch in batches:
                if len(statement.kernels) >= left:
                    break
                placer.place_best_effort(batch, agents)
            most = max(most, len(statement.kernels))
            placed = {id(batch) for batch, _, _ in statement.kernels}
            lacking = [batch for batch in pending.best_effort if id(batch) not in placed]
            return bool(placed) and pending.ready_without((), lacking)

        for agents in self._agent_ranges(pending):
            if statement.attempt(lambda agents=agents: fill(agents)):  # type: ignore[misc]  # bound to this range
                return True, most
        return False, most

    def _agent_ranges(self, pending: PendingSession) -> list[range]:
        """All agents, or for a hard topology the HyperNodes that it allows."""
        constraint = pending.session.topology
        if constraint is None or constraint.mode is TopologyMode.SOFT:
            return [self._context.all_agents]
        topology = self._context.topology
        tiers = topology.tiers(topology.tier_limit(constraint), inside=ROOT, agents=pending.agents)
        return [topology.agents(name) for tier in tiers for name in tier.names]

    def _commit(self, pending: PendingSession, statement: Statement) -> None:
        self._admission.count(pending, ())
        statement.commit()
        self._context.count_best_effort(pending.session, statement.placed)
        for batch, kernel, agent in statement.placed:
            pending.agents.append(agent)
            pending.best_effort.remove(batch)
            agent_id = self._context.workspace.ids[agent]
            self._outcome.placements.append(Placement(kernel.kernel_id, pending.session.session_id, agent_id))  # type: ignore[arg-type]  # ids are plain text
        pending.placed += len(statement.placed)


def _reason(pending: PendingSession, most: int) -> PendingReason:
    if not most and pending.session.topology is None:
        return PendingReason(None, shape=pending.best_effort[0].shape)
    close = " close together" if pending.session.topology is not None else ""
    text = f"{most} of {len(pending.best_effort)} best-effort kernels fit{close}"
    return PendingReason(Code.BEST_EFFORT, f"{text}, {pending.minimum} kernels must run")
