"""The action *allocate*: places sessions queue by queue.

Takes pending sessions and the CycleContext. Gives placements, reservations and
HyperNodes in an AllocateOutcome. The best queue is popped and skipped if it is
overused; its best session is popped, validated and tried. Kernels that fit are
charged at once, so that the next session sees them. Kernels that fit only on room
that is being released become a reservation, which holds that room. A reservation that
still waits in the next cycle yields to work of higher priority. A session that does
not fit is rolled back and blocks no other. A session that has its minimum is pushed
again, for one more kernel at a time. For the first session of each queue that lacks nothing
but room, room is held from the earliest time on at which it fits, if time limits give one
(EASY backfilling).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sokovan.domain.slots import total
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import NO_GROUP, PendingReason, PendingSession
from sokovan.scheduling.engine.placement import PlacementAttempt
from sokovan.scheduling.engine.queue_order import WaitingSessions, serve_by_queue
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.starts.earliest_start import EarliestStart
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, lenders
from sokovan.scheduling.extensions import PluginFailed
from sokovan.scheduling.plan import Eviction, Placement, Relocation
from sokovan.scheduling.snapshot import evictable
from sokovan.scheduling.trace import Code

KernelOnAgent = tuple[str, str]

_REFUSED_BY_QUEUE = frozenset({Code.QUEUE_LIMIT, Code.QUEUE_OVER_SHARE})

# The extension points that the single-kernel path does not call.
_GENERAL_PATH_POINTS = ("allocatable", "pre_predicate", "session_ready", "session_pipelined")


@dataclass(slots=True)
class AllocateOutcome:
    """The decisions of the actions of a cycle so far."""

    placements: list[Placement] = field(default_factory=list)
    reserved: dict[str, list[KernelOnAgent]] = field(default_factory=dict)
    evictions: list[Eviction] = field(default_factory=list)
    moves: list[Relocation] = field(default_factory=list)
    domains: dict[str, str] = field(default_factory=dict)
    group_domains: dict[str, dict[str, str]] = field(default_factory=dict)
    loans: dict[str, str] = field(default_factory=dict)


class Allocate:
    """Serves the queues of one cycle."""

    def __init__(
        self,
        context: CycleContext,
        admission: SessionAdmission,
        outcome: AllocateOutcome,
        new_queue: Callable[[], WaitingSessions],
    ) -> None:
        self._context, self._admission, self._outcome = context, admission, outcome
        self._new_queue = new_queue
        self._has_overused_plugin = bool(context.extensions.at("overused"))
        self._has_room: dict[Shape, bool] = {}
        self._single_kernel_path = not any(context.extensions.at(point) for point in _GENERAL_PATH_POINTS)

    def run(
        self,
        sessions: Sequence[PendingSession],
        *,
        first: Sequence[PendingSession] = (),
        refused: Sequence[PendingSession] = (),
    ) -> None:
        """Serve sessions that hold a reservation first, then all others by queue.

        An earlier cycle reserved room for them, so they do not wait for their queue; their
        limits still hold. One whose room is free starts. One that still waits is planned
        anew, after work of higher priority, which may take the idle part of its room. Those that
        their queue `refused` to admit may borrow.
        """
        rest, floor = list(sessions), None
        for holder in first:
            grows = self._serve_session(holder, may_reserve=False)
            if not holder.placed:
                priority = holder.session.priority
                if floor is None or priority < floor:
                    self._serve([pending for pending in rest if pending.session.priority > priority])
                    rest = [pending for pending in rest if pending.session.priority <= priority]
                    floor = priority
                grows = self._serve_session(holder)
                self._hold_in_time(holder)
            if grows:
                rest.append(holder)
        self._serve(rest)
        self._lend([*first, *sessions])
        for pending in (*sessions, *refused):
            if pending.session.borrow and may_borrow(pending):
                self._borrow(pending)

    def _borrow(self, pending: PendingSession) -> None:
        """Start a session on what a queue is guaranteed and does not use, if it returns it in time."""
        if pending.placed or pending.reserved or pending.agents:
            return
        home, reason = pending.node, pending.reason
        for lender in lenders(self._context.queue_usage, home, pending.session.grace_ms, _asked(pending)):
            pending.node = lender
            self._serve_session(pending, may_reserve=False)
            if pending.started:
                pending.loan_s = lender.queue.return_s
                self._outcome.loans[pending.session.session_id] = lender.name
                return
        pending.node, pending.reason = home, reason

    def _lend(self, sessions: Iterable[PendingSession]) -> None:
        """Let queues exceed their deserved share by one session each, if agents would stay idle otherwise.

        Otherwise two queues whose sessions are larger than their shares would block each
        other for ever.
        """
        over_share = [
            pending
            for pending in sessions
            if pending.reason is not None and pending.reason.code is Code.QUEUE_OVER_SHARE
        ]
        self._context.queue_usage.lending = True
        self._serve(
            pending
            for pending in over_share
            if not (pending.placed or pending.reserved) and not self._lending_is_useless(pending)
        )
        self._context.queue_usage.lending = False

    def _lending_is_useless(self, pending: PendingSession) -> bool:
        """Whether a session of one kernel is still refused by its queue, or fits no agent.

        Checked per shape, because thousands of equal sessions may wait.
        """
        context, shape = self._context, pending.batches[0].shape
        if not pending.single or context.workspace.releases or shape.affinity is not None:
            return False
        if pending.session.array_limit is not None:
            return False  # the limit of its array may have been reached meanwhile, which is then the reason
        if context.queue_usage.refusal(pending.node, shape.slot_pairs) is not None:
            return True
        if shape not in self._has_room:
            self._has_room[shape] = bool(shape.fit_counts(context.workspace).any())
        if not self._has_room[shape]:
            pending.reason = PendingReason(None, shape=shape)
        return not self._has_room[shape]

    def _serve(self, sessions: Iterable[PendingSession]) -> None:
        """Try the sessions of all queues, the best queue first each time."""
        serve_by_queue(self._context.queue_usage, sessions, self._new_queue, self._serve_queue)

    def _serve_queue(self, node: QueueNode, waiting: WaitingSessions) -> bool:
        """Try the next session of a queue; False when the queue is done for this cycle."""
        reason = self._queue_reason(node)
        if reason is not None:
            while (pending := waiting.pop()) is not None:
                # An objection of a validator comes first: a share may come back, a limit stays.
                if not self.refused(pending):
                    pending.reason = reason._replace(shape=pending.batches[0].shape)
                    self._hold_in_time(pending)
            return False
        pending = waiting.pop()
        if pending is None:
            return False
        if self._serve_session(pending):
            waiting.push(pending)
        elif self._context.calendar is not None:
            self._hold_in_time(pending)
        return True

    def _hold_in_time(self, pending: PendingSession) -> None:
        """Hold room from a time on for the first session of a queue that lacks nothing else."""
        calendar = self._context.calendar
        if calendar is None or not calendar.may_hold(pending) or not self._lacks_only_room(pending):
            return
        calendar.served[pending.node.name] = str(pending.session.session_id)
        try:
            EarliestStart(self._context, calendar, self.fits).hold(pending)
        except PluginFailed as failed:
            pending.reason = PendingReason(Code.PLUGIN_FAILED, str(failed))

    def _lacks_only_room(self, pending: PendingSession) -> bool:
        """Whether room is the reason, or a queue that may use all that the cluster has."""
        reason = pending.reason
        if reason is None or reason.code not in {None, Code.QUEUE_LIMIT, Code.QUEUE_OVER_SHARE}:
            return False
        contended = self._context.queue_usage.contended
        return reason.code is None or not any(contended(pending.node, one.shape.slot_pairs) for one in pending.batches)

    def _queue_reason(self, node: QueueNode) -> PendingReason | None:
        """Why a queue gets no more kernels in this cycle, if so."""
        queue_usage = self._context.queue_usage
        try:
            if queue_usage.overused(node):
                return PendingReason(Code.QUEUE_OVER_SHARE, f"queue {node.name} has all of its deserved share")
            if self._has_overused_plugin:
                name = self._context.extensions.objector("overused", queue_usage.view(node))
                if name is not None:
                    text = f"plugin {name} marks queue {node.name} as overused"
                    return PendingReason(Code.REFUSED_BY_PLUGIN, text)
        except PluginFailed as failed:
            return PendingReason(Code.PLUGIN_FAILED, str(failed))
        return None

    def refused(self, pending: PendingSession) -> bool:
        """Whether a validator or plugin objects; the reason is on the session."""
        try:
            pending.reason = self._admission.objection(pending)
        except PluginFailed as failed:
            pending.reason = PendingReason(Code.PLUGIN_FAILED, str(failed))
        return pending.reason is not None

    def _serve_session(self, pending: PendingSession, *, may_reserve: bool = True) -> bool:
        """Validate and try one session; True if kernels were placed and more are waiting."""
        if self._context.calendar is not None:
            self._context.calendar.prepare(pending)
        if self.refused(pending):
            return False
        return self._try_session(pending, may_reserve=may_reserve) and bool(pending.batches)

    def _try_session(self, pending: PendingSession, *, may_reserve: bool) -> bool:
        """One attempt for one session, on one of two paths; True if it starts with what was placed."""
        try:
            if pending.single and self._single_kernel_path and not self._context.workspace.releases:
                return self._place_single_kernel(pending)
            return self._place_kernels(pending, may_reserve=may_reserve)
        except PluginFailed as failed:
            pending.reason = PendingReason(Code.PLUGIN_FAILED, str(failed))
            return False

    def _place_single_kernel(self, pending: PendingSession) -> bool:
        """The fast path: one kernel, no topology, no room being released. False: it cannot grow.

        Most attempts are of this kind, so no Statement is built. The outcome is that of
        `_place_kernels`.
        """
        context, batch = self._context, pending.batches[0]
        workspace, shape, kernel = context.workspace, batch.shape, batch.kernels[0]
        refusal = context.queue_usage.refusal(pending.node, shape.slot_pairs)
        if refusal is not None:
            pending.reason = PendingReason(refusal.code, shape=shape, refusal=refusal)
            return False
        # With affinity, kernels placed later in the cycle may open agents.
        cache = context.fit_error_cache if shape.affinity is None else None
        misfit = cache is not None and shape in cache
        agent = -1 if misfit else context.choice.now(shape, 0, len(workspace.ids), kernel)
        if agent < 0:
            if cache is not None:
                cache.add(shape)
            pending.reason = PendingReason(None, shape=shape)
            return False
        workspace.take(agent, shape.both)
        shape.count_placed(agent, 1)
        context.choice.chosen(agent)
        self._admission.count(pending, ((shape.slots, 1),))
        context.queue_usage.charge(pending.node, shape.slot_pairs)
        agent_id = workspace.ids[agent]
        self._outcome.placements.append(Placement(kernel.kernel_id, pending.session.session_id, agent_id))  # type: ignore[arg-type]  # ids are plain text
        pending.placed = pending.have = 1
        pending.agents.append(agent)
        pending.batches = []
        if context.calendar is not None:
            self._note_ends(pending, ((shape, agent),))
        return False

    def _note_ends(self, pending: PendingSession, placed: Iterable[tuple[Shape, int]]) -> None:
        """Record by when kernels that start now have ended."""
        calendar = self._context.calendar
        if calendar is not None:
            ends_ms, width = pending.session.ends_by(calendar.now_ms), self._context.workspace.width
            for shape, agent in placed:
                calendar.ends.place(agent, ends_ms, shape.both[:width], pending.node.name)

    def _place_kernels(self, pending: PendingSession, *, may_reserve: bool) -> bool:
        """The general path: one attempt on a Statement, committed or rolled back."""
        statement = Statement(self._context.workspace, self._context.choice)
        attempt = PlacementAttempt(pending, self._context, statement, may_reserve=may_reserve)
        if statement.attempt(lambda: self.fits(pending, statement, attempt)):
            return self._commit(pending, statement, ready=pending.ready_with(statement.placed))
        return False

    def reserve(self, pending: PendingSession, statement: Statement) -> None:
        """Hold all that a statement found for a session; none of it starts in this cycle."""
        self._commit(pending, statement, ready=False)

    def fits(self, pending: PendingSession, statement: Statement, attempt: PlacementAttempt) -> bool:
        """Find agents within all limits; False with the reason on the session."""
        if not attempt.run():
            # If the session lacks the kernels that a limit excludes, the limit is the reason.
            pending.reason = pending.limit_reason if pending.excluded_shapes else attempt.reason
            return False
        if pending.rules:
            # The rules have validated the next kernels in the order; others may have been taken, or more of them.
            slots = total(shape.slots * count for shape, count in statement.shape_counts().items())
            if pending.excluded_shapes is not None or slots != pending.next_slots():
                pending.reason = self._admission.over_limit(pending, slots)
        return pending.reason is None

    def _commit(self, pending: PendingSession, statement: Statement, *, ready: bool) -> bool:
        """Charge owner and queue, record the outcome; True if the session starts now."""
        shapes = statement.shape_counts()
        self._admission.count(pending, [(shape.slots, count) for shape, count in shapes.items()])
        for shape, count in shapes.items():
            self._context.queue_usage.charge(pending.node, shape.slot_pairs, count)
        statement.commit()
        if pending.best_effort:
            self._context.count_best_effort(pending.session, statement.placed)
        self._record(pending, statement, ready=ready)
        _advance(pending, statement)
        pending.reason = None
        if ready:
            self._record_domains(pending)
        return ready

    def _record(self, pending: PendingSession, statement: Statement, *, ready: bool) -> None:
        workspace, session_id = self._context.workspace, pending.session.session_id
        ids = workspace.ids
        held = statement.reserved if ready else statement.kernels
        if ready:
            # The placed kernels start; those reserved beside them wait for their room.
            self._outcome.placements.extend(
                Placement(kernel.kernel_id, session_id, ids[agent])  # type: ignore[arg-type]  # ids are plain text
                for _, kernel, agent in statement.placed
            )
            pending.placed += len(statement.placed)
            self._note_ends(pending, ((batch.shape, agent) for batch, _, agent in statement.placed))
        else:
            for batch, _, agent in statement.placed:
                workspace.mark_held(agent, batch.shape.both)
        if held:
            for _, _, agent in held:
                workspace.holders.setdefault(agent, session_id)
            reserved = self._outcome.reserved.setdefault(session_id, [])
            reserved.extend((kernel.kernel_id, ids[agent]) for _, kernel, agent in held)
            pending.reserved += len(held)

    def _record_domains(self, pending: PendingSession) -> None:
        """Record the HyperNode of a session with a topology, and of each kernel group."""
        session = pending.session
        if session.topology is not None and (domain := self._domain_of(pending.agents)) is not None:
            self._outcome.domains[session.session_id] = domain
        groups = {
            f"{session.partitions[group.partition].name}/{group.value}": domain
            for group in pending.kernel_groups
            if (domain := self._domain_of(group.agents)) is not None
        }
        if groups:
            self._outcome.group_domains[session.session_id] = groups

    def _domain_of(self, agents: Sequence[int]) -> str | None:
        workspace = self._context.workspace
        return workspace.tree.domain_of(workspace.ids[agent] for agent in agents if agent >= 0)


def may_borrow(pending: PendingSession) -> bool:
    """Whether only its queue refuses a session that borrows, and can be recalled."""
    session, reason = pending.session, pending.reason
    if not session.borrow or not evictable(session):
        return False
    return reason is not None and reason.code in _REFUSED_BY_QUEUE


def _asked(pending: PendingSession) -> dict[int, int]:
    """The amounts that a session needs to start, by column."""
    asked: dict[int, int] = {}
    need = pending.need()
    for batch in pending.batches:
        count = min(need, len(batch.kernels))
        for column, amount in batch.shape.slot_pairs:
            asked[column] = asked.get(column, 0) + amount * count
        need -= count
    return asked


def _advance(pending: PendingSession, statement: Statement) -> None:
    """Move committed kernels from waiting to counted."""
    for batch, _, agent in statement.placed:
        pending.agents.append(agent)
        if batch.kernel_group != NO_GROUP:
            pending.kernel_groups[batch.kernel_group].agents.append(agent)
        if batch.best_effort:
            # It was counted from the start; now it has an agent.
            pending.best_effort.remove(batch)
            continue
        pending.have += 1
        pending.group_have[batch.group] += 1
        if batch.kernel_group != NO_GROUP:
            pending.kernel_groups[batch.kernel_group].have += 1
    placed = sum(not batch.best_effort for batch, _, _ in statement.placed)
    if len(pending.batches) == 1 and placed == len(pending.batches[0].kernels):
        pending.batches = []
        return
    gone = {kernel.kernel_id for _, kernel, _ in statement.kernels}
    for batch in pending.batches:
        batch.kernels = [kernel for kernel in batch.kernels if kernel.kernel_id not in gone]
    pending.batches = [batch for batch in pending.batches if batch.kernels]
