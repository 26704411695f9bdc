"""The action *backfill*: kernels that ask for nothing go where there is a place.

Only status, architecture, labels and the kernel limit of an agent speak for or
against it. Sessions go by priority and order, kernels by priority; one that finds
no place does not stop the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.scheduling.engine.allocate import Outcome
from sokovan.scheduling.engine.gang import Span, Trial
from sokovan.scheduling.engine.jobs import Failure, Job, Outlook, Run
from sokovan.scheduling.engine.turn import Floor
from sokovan.scheduling.extensions import PluginFailed
from sokovan.scheduling.plan import Placement
from sokovan.scheduling.trace import Code


class Backfill:
    """Places best-effort kernels."""

    def __init__(self, floor: Floor, outlook: Outlook, outcome: Outcome) -> None:
        self._floor, self._outlook, self._outcome = floor, outlook, outcome

    def run(self, jobs: Iterable[Job]) -> None:
        """Serve the best-effort kernels of every session that is not refused."""
        able = [job for job in jobs if job.bare]
        for job in sorted(able, key=lambda job: (-job.session.priority, job.rank)):
            refused = job.failure is not None and job.failure.code is not None and not job.placed
            # A gang that lacks other kernels does not begin with those that ask for nothing.
            if refused or not job.ready(0, {}, {}):
                continue
            try:
                self._serve(job)
            except PluginFailed as failed:
                job.failure = Failure(Code.PLUGIN_FAILED, str(failed))

    def _serve(self, job: Job) -> None:
        workspace = self._floor.workspace
        kernels = [k for k in job.session.kernels if k.agent is None and not k.slots]
        for kernel in sorted(kernels, key=lambda kernel: -kernel.priority):
            run = Run(self._outlook.table.of(kernel), [kernel], nominated=self._outlook.nominated(kernel))
            trial = Trial(job, workspace, self._floor.choice, self._floor.book)
            if trial.place(run, [kernel], Span(0, len(workspace.ids))):
                trial.statement.commit()
                job.agents.append(trial.placed[0][2])
                agent = workspace.ids[trial.placed[0][2]]
                self._outcome.placements.append(Placement(kernel.kernel_id, job.session.session_id, agent))  # type: ignore[arg-type]  # ids are plain text
                job.placed += 1
                job.bare -= 1
            else:
                job.failure = job.failure or Failure(None, shape=run.shape)
