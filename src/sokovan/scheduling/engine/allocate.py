"""The action *allocate*: queues in turn, one session a turn.

Pop the best queue; pass over it if it has its share. Pop its best session; ask the
rules; take a turn. What fits is kept and counted at once, so that the next session
sees it. What fits only on room that is being released becomes a reservation and
holds that room. What does not fit leaves no trace, and never stands in the way of
another. A session that has its minimum comes back for one more kernel at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.gang import Trial
from sokovan.scheduling.engine.pending_session import NOBODY, Failure, PendingSession
from sokovan.scheduling.engine.placement import CycleContext, PlacementAttempt
from sokovan.scheduling.engine.queue_order import QueueOrder, SessionHeap
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.usage.queue_usage import QueueNode
from sokovan.scheduling.extensions import PluginFailed
from sokovan.scheduling.plan import Placement
from sokovan.scheduling.trace import Code

Seat = tuple[str, str]
Waiting = SessionHeap | QueueOrder

# The points at which a plugin may have a say in the turn of a session of one kernel.
_TURN_POINTS = ("allocatable", "pre_predicate", "session_ready", "session_pipelined")


@dataclass(slots=True)
class AllocateOutcome:
    """What a cycle has decided so far."""

    placements: list[Placement] = field(default_factory=list)
    reserved: dict[str, list[Seat]] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)


class Allocate:
    """Serves the queues of one cycle."""

    def __init__(
        self, floor: CycleContext, admission: SessionAdmission, outcome: AllocateOutcome, lanes: Callable[[], Waiting]
    ) -> None:
        self._floor, self._admission, self._outcome = floor, admission, outcome
        self._make_lanes = lanes
        self._asks_overused = bool(floor.extensions.at("overused"))
        self._roomy: dict[Shape, bool] = {}
        self._asks_nobody = not any(floor.extensions.at(point) for point in _TURN_POINTS)

    def run(self, jobs: Sequence[PendingSession], *, first: Sequence[PendingSession] = ()) -> None:
        """Serve sessions that hold a reservation first, then all others by queue."""
        # An earlier cycle promised them room, so they do not wait for their queue's turn; their limits still hold.
        growing = [job for job in first if not self._refused(job) and self._turn(job) and job.runs]
        self._serve([*growing, *jobs])
        self._lend([*first, *jobs])

    def _lend(self, jobs: Iterable[PendingSession]) -> None:
        """Where room would stand idle, let a queue pass what it deserves by its last session.

        Otherwise two queues whose sessions are larger than their shares would keep each
        other waiting for ever.
        """
        over = [job for job in jobs if job.failure is not None and job.failure.code is Code.QUEUE_OVER_SHARE]
        self._floor.book.lends = True
        self._serve([job for job in over if not (job.placed or job.reserved) and not self._short_of_room(job)])
        self._floor.book.lends = False

    def _short_of_room(self, job: PendingSession) -> bool:
        """Whether lending cannot help: a session of one kernel that its queue still refuses, or that fits nowhere.

        Whoever waits with thousands of its like is not given a turn to find that out.
        """
        floor, shape = self._floor, job.runs[0].shape
        if not job.single or floor.workspace.releases:
            return False
        if floor.book.refusal(job.node, shape.slot_pairs) is not None:
            return True
        if shape not in self._roomy:
            self._roomy[shape] = bool(shape.fit_counts(floor.workspace).any())
        if not self._roomy[shape]:
            job.failure = Failure(None, shape=shape)
        return not self._roomy[shape]

    def _serve(self, jobs: Iterable[PendingSession]) -> None:
        """Give the sessions of each queue their turns, queue by queue."""
        lanes: dict[str, Waiting] = {}
        nodes: dict[str, QueueNode] = {}
        for job in jobs:
            name = job.node.name
            if name not in lanes:
                lanes[name], nodes[name] = self._make_lanes(), job.node
            lanes[name].push(job)
        walk = self._floor.book.walk(nodes.values())
        node = next(walk, None)
        while node is not None:
            try:
                node = walk.send(self._serve_one(node, lanes[node.name]))
            except StopIteration:
                return

    def _serve_one(self, node: QueueNode, lanes: Waiting) -> bool:
        """Give one session of a queue its turn; False when the queue is done for this cycle."""
        refusal = self._queue_refusal(node)
        if refusal is not None:
            while (job := lanes.pop()) is not None:
                # What the rules object to is said too, and first: a share may come back, a limit stays.
                if not self._refused(job):
                    job.failure = refusal._replace(shape=job.runs[0].shape)
            return False
        job = lanes.pop()
        if job is None:
            return False
        if not self._refused(job) and self._turn(job) and job.runs:
            lanes.push(job)
        return True

    def _queue_refusal(self, node: QueueNode) -> Failure | None:
        book = self._floor.book
        try:
            if book.overused(node):
                return Failure(Code.QUEUE_OVER_SHARE, f"queue {node.name} has all that it deserves")
            if self._asks_overused:
                name = self._floor.extensions.objector("overused", book.view(node))
                if name is not None:
                    return Failure(Code.REFUSED_BY_PLUGIN, f"plugin {name} lets queue {node.name} have nothing more")
        except PluginFailed as failed:
            return Failure(Code.PLUGIN_FAILED, str(failed))
        return None

    def _refused(self, job: PendingSession) -> bool:
        try:
            job.failure = self._admission.objection(job)
        except PluginFailed as failed:
            job.failure = Failure(Code.PLUGIN_FAILED, str(failed))
        return job.failure is not None

    def _turn(self, job: PendingSession) -> bool:
        """One turn; True if the session got something and may come back for more."""
        turn = None
        try:
            if job.single and self._asks_nobody and self._take_one(job):
                return False
            turn = PlacementAttempt(job, self._floor)
            found = turn.take()
        except PluginFailed as failed:
            if turn is not None:
                turn.abandon()
            job.failure = Failure(Code.PLUGIN_FAILED, str(failed))
            return False
        if not found:
            # Without the kernels that a limit keeps out it could not be done: the limit is the reason.
            job.failure = job.objection if job.barred else turn.failure
            return False
        trial = turn.trial
        shapes = Counter(run.shape for run, _, _ in (*trial.placed, *trial.reserved))
        taken = _sum(shapes)
        if job.rules and (job.barred is not None or taken != job.next_slots()):
            # The rules were asked about the next kernels in the order; others were taken, or more of them.
            job.failure = self._admission.over_limit(job, taken)
            if job.failure is not None:
                turn.abandon()
                return False
        return self._keep(job, trial, shapes)

    def _take_one(self, job: PendingSession) -> bool:
        """The turn of a session of one kernel, with nothing tentative built for it: most turns are such.

        False leaves it to the general way, which also looks at room that is being
        released; the outcome is the same.
        """
        floor, shape = self._floor, job.runs[0].shape
        workspace, kernel = floor.workspace, job.runs[0].kernels[0]
        if workspace.releases:
            return False
        refusal = floor.book.refusal(job.node, shape.slot_pairs)
        if refusal is not None:
            job.failure = Failure(refusal.code, shape=shape, refusal=refusal)
            return True
        known = floor.misfits is not None and shape in floor.misfits
        agent = -1 if known else floor.choice.now(shape, 0, len(workspace.ids), kernel)
        if agent < 0:
            if floor.misfits is not None:
                floor.misfits.add(shape)
            job.failure = Failure(None, shape=shape)
            return True
        workspace.take(agent, shape.both)
        floor.choice.chosen(agent)
        self._admission.count(job, ((shape.slots, 1),))
        floor.book.charge(job.node, shape.slot_pairs)
        agent_id = workspace.ids[agent]
        self._outcome.placements.append(Placement(kernel.kernel_id, job.session.session_id, agent_id))  # type: ignore[arg-type]  # ids are plain text
        job.placed = job.have = 1
        job.agents.append(agent)
        job.runs = []
        return True

    def _keep(self, job: PendingSession, trial: Trial, shapes: Counter[Shape]) -> bool:
        """Count what was found against owner, queue and session; True if it starts now."""
        self._admission.count(job, [(shape.slots, count) for shape, count in shapes.items()])
        for shape, count in shapes.items():
            self._floor.book.charge(job.node, shape.slot_pairs, count)
        ready = trial.ready()
        trial.statement.commit()
        self._count(job, trial, ready=ready)
        job.failure = None
        if ready and job.session.topology is not None:
            self._record_domain(job)
        return ready

    def _count(self, job: PendingSession, trial: Trial, *, ready: bool) -> None:
        ids, session_id = self._floor.workspace.ids, job.session.session_id
        if ready:
            # What is placed starts; what is reserved beside it waits for its room.
            self._outcome.placements.extend(
                Placement(kernel.kernel_id, session_id, ids[agent])  # type: ignore[arg-type]  # ids are plain text
                for _, kernel, agent in trial.placed
            )
            job.placed += len(trial.placed)
            held = trial.reserved
        else:
            held = [*trial.placed, *trial.reserved]
        if held:
            seats = self._outcome.reserved.setdefault(session_id, [])
            seats.extend((kernel.kernel_id, ids[agent]) for _, kernel, agent in held)
            job.reserved += len(held)
        self._advance(job, trial)

    def _advance(self, job: PendingSession, trial: Trial) -> None:
        """Kernels that have a place are no longer waiting, and count from now on."""
        for run, _, agent in trial.placed:
            job.agents.append(agent)
            if run.part != NOBODY:
                job.parts[run.part].agents.append(agent)
            if run.best_effort:
                # It was counted from the beginning; now it has its place.
                job.best_effort.remove(run)
                continue
            job.have += 1
            job.group_have[run.group] += 1
            if run.part != NOBODY:
                job.parts[run.part].have += 1
        if len(job.runs) == 1 and sum(not run.best_effort for run, _, _ in trial.placed) == len(job.runs[0].kernels):
            job.runs = []
            return
        gone = {kernel.kernel_id for _, kernel, _ in (*trial.placed, *trial.reserved)}
        for run in job.runs:
            run.kernels = [kernel for kernel in run.kernels if kernel.kernel_id not in gone]
        job.runs = [run for run in job.runs if run.kernels]

    def _record_domain(self, job: PendingSession) -> None:
        workspace = self._floor.workspace
        domain = workspace.tree.domain_of(workspace.ids[agent] for agent in job.agents if agent >= 0)
        if domain is not None:
            self._outcome.domains[job.session.session_id] = domain


def _sum(shapes: Counter[Shape]) -> ResourceSlot:
    return total(shape.slots * count for shape, count in shapes.items())
