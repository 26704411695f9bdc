"""The action *backfill*: kernels that ask for nothing go where there is a place.

Only status, architecture, labels and the kernel limit of an agent speak for or
against it. Sessions go by priority and order, kernels by priority; one that finds
no place does not stop the next. The rules of owners, gangs and closeness hold as
they do for every kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.domain.cluster.topology import ROOT
from sokovan.domain.session import TopologyMode
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.allocate import AllocateOutcome
from sokovan.scheduling.engine.gang import Span, Trial
from sokovan.scheduling.engine.pending_session import Failure, PendingSession
from sokovan.scheduling.engine.placement import CycleContext, place_best_effort
from sokovan.scheduling.extensions import PluginFailed
from sokovan.scheduling.plan import Placement
from sokovan.scheduling.trace import Code


class Backfill:
    """Places best-effort kernels."""

    def __init__(self, floor: CycleContext, admission: SessionAdmission, outcome: AllocateOutcome) -> None:
        self._floor, self._admission, self._outcome = floor, admission, outcome

    def run(self, jobs: Iterable[PendingSession]) -> None:
        """Serve the best-effort kernels of every session that is not refused."""
        able = [job for job in jobs if job.best_effort]
        for job in sorted(able, key=lambda job: (-job.session.priority, job.rank)):
            if job.failure is not None and job.failure.code is not None and not job.placed:
                continue
            try:
                refused = None if job.placed or job.reserved else self._admission.objection(job)
                if refused is None:
                    self._serve(job)
                else:
                    job.failure = refused
            except PluginFailed as failed:
                job.failure = Failure(Code.PLUGIN_FAILED, str(failed))

    def _serve(self, job: PendingSession) -> None:
        trial = Trial(job, self._floor.workspace, self._floor.choice, self._floor.book)
        start = trial.mark()
        try:
            self._search(job, trial)
        except PluginFailed:
            trial.back(start)
            raise

    def _search(self, job: PendingSession, trial: Trial) -> None:
        start = trial.mark()
        runs = sorted(job.best_effort, key=lambda run: -run.kernels[0].priority)
        most = 0
        for span in self._spans(job):
            for run in runs:
                place_best_effort(run, trial, self._floor, span)
            most = max(most, len(trial.placed))
            placed = [run for run, _, _ in trial.placed]
            lacking = [run for run in job.best_effort if all(run is not other for other in placed)]
            if placed and job.stands((), lacking):
                self._keep(job, trial)
                return
            trial.back(start)
        if job.failure is None:
            job.failure = self._why(job, most)

    def _spans(self, job: PendingSession) -> list[Span]:
        """Where the kernels may go: anywhere, or for a hard session the domains that are close enough."""
        topology = job.session.topology
        if topology is None or topology.mode is TopologyMode.SOFT:
            return [Span(0, len(self._floor.workspace.ids))]
        domains = self._floor.close()
        tiers = domains.tiers(domains.bounds(topology), inside=ROOT, agents=job.agents)
        return [domains.span(name) for tier in tiers for name in tier.names]

    @staticmethod
    def _why(job: PendingSession, most: int) -> Failure:
        if not most and job.session.topology is None:
            return Failure(None, shape=job.best_effort[0].shape)
        close = " close together" if job.session.topology is not None else ""
        text = f"{most} of {len(job.best_effort)} kernels that ask for nothing find a place{close}"
        return Failure(Code.BEST_EFFORT, f"{text}, {job.minimum} must run")

    def _keep(self, job: PendingSession, trial: Trial) -> None:
        self._admission.count(job, ())
        trial.statement.commit()
        for run, kernel, agent in trial.placed:
            job.agents.append(agent)
            job.best_effort.remove(run)
            agent_id = self._floor.workspace.ids[agent]
            self._outcome.placements.append(Placement(kernel.kernel_id, job.session.session_id, agent_id))  # type: ignore[arg-type]  # ids are plain text
        job.placed += len(trial.placed)
