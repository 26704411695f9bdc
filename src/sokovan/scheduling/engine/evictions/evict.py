"""The actions *preempt*, *reclaim* and *consolidate*: room for starving sessions.

Takes pending sessions. Gives evictions and reservations in an AllocateOutcome. A session
starves if it is below its minimum and lacks nothing but room, or its queue's limit.
Starving sessions go in the order of their queues. For each the cheapest set of victims is
sought; one Statement evicts it and reserves the whole minimum, or nothing changes and the
session gets a reason with the number of kernels that each rule protects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

from sokovan.domain.ids import AgentId
from sokovan.domain.session import Preemption
from sokovan.scheduling.engine.allocate import AllocateOutcome
from sokovan.scheduling.engine.evictions.moves import MoveTrial, has_scattered_room, move_cost
from sokovan.scheduling.engine.evictions.owner_budget import OwnerBudget
from sokovan.scheduling.engine.evictions.points import EvictionPoints, isolated
from sokovan.scheduling.engine.evictions.rules import (
    CONSOLIDATE,
    EvictionOptions,
    EvictionRules,
    Protected,
    first_shape,
)
from sokovan.scheduling.engine.evictions.search import Rows, VictimSearch
from sokovan.scheduling.engine.evictions.seats import SeatCounter
from sokovan.scheduling.engine.evictions.taker import Taker
from sokovan.scheduling.engine.evictions.trial import EvictingEngine, EvictionTrial
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.pending_session import NO_AGENT, PendingReason, PendingSession
from sokovan.scheduling.engine.queue_order import WaitingSessions, serve_by_queue
from sokovan.scheduling.engine.usage.queue_usage import QueueNode
from sokovan.scheduling.plan import Eviction
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Code

# The reasons with which a session may lack nothing but room or its queue's limit.
_STARVING = frozenset({None, Code.QUEUE_OVER_SHARE, Code.QUEUE_LIMIT, Code.BEST_EFFORT, Code.VICTIMS_PROTECTED})

Memo = tuple[object, ...]


class Evictions:
    """The evictions of one cycle, over all its actions."""

    def __init__(
        self, snapshot: SystemSnapshot, options: EvictionOptions, engine: EvictingEngine, outcome: AllocateOutcome
    ) -> None:
        self._snapshot, self._options, self._engine, self._outcome = snapshot, options, engine, outcome
        self._context = engine.context
        self._points = EvictionPoints(engine.context.extensions, engine.context.queue_usage)
        self._pending: dict[str, PendingSession] = {}
        self._refusals: dict[Memo, tuple[int, Protected]] = {}
        self._evicted: set[str] = set()
        # Takers of an earlier cycle have their victims until their reservation is redeemed or broken.
        self._holding = {one.session_id for one in snapshot.reservations if one.starts_ms is None}
        self._budget = OwnerBudget(snapshot, options.owner_budget)

    def run(self, action: str, sessions: Sequence[PendingSession], new_queue: Callable[[], WaitingSessions]) -> None:
        """Serve the starving sessions of all queues."""
        starving = [pending for pending in sessions if self._starves(pending)]
        if not starving:
            return
        serve_one = self._consolidate if action == CONSOLIDATE else partial(self._serve, action)
        self._pending = {pending.session.session_id: pending for pending in sessions}
        for pending in sessions:
            if pending.placed or pending.reserved:
                self._table.keep_off(pending.session.session_id)

        def serve(node: QueueNode, waiting: WaitingSessions) -> bool:
            del node
            pending = waiting.pop()
            if pending is not None:
                isolated(serve_one, pending)
            return pending is not None

        serve_by_queue(self._context.queue_usage, starving, new_queue, serve)

    @cached_property
    def _table(self) -> VictimTable:
        assumed_s, queue_usage = self._options.assumed_checkpoint, self._context.queue_usage
        calendar = self._context.calendar
        return VictimTable(self._snapshot, self._engine.shapes, queue_usage, assumed_s=assumed_s, calendar=calendar)

    @cached_property
    def _trial(self) -> EvictionTrial:
        return EvictionTrial(self._engine, self._table)

    def _starves(self, pending: PendingSession) -> bool:
        if pending.placed or pending.reserved or pending.session.preemption is not Preemption.ALWAYS:
            return False
        if pending.session.session_id in self._holding:
            return False
        if pending.reason is not None and pending.reason.code not in _STARVING:
            return False
        if pending.batches:
            below = not pending.grows()
        else:
            below = bool(pending.best_effort) and not pending.ready_without((), pending.best_effort)
        return below and bool(isolated(self._points.starves, pending))

    def _serve(self, action: str, pending: PendingSession) -> None:
        """Take victims for one session, or give it a reason."""
        if pending.session.session_id in self._evicted:
            return
        calendar = self._context.calendar
        hold = None if calendar is None else calendar.release(str(pending.session.session_id))
        try:
            self._serve_without_hold(action, pending)
        finally:
            if calendar is not None and not pending.reserved:
                calendar.take_back(hold)

    def _serve_without_hold(self, action: str, pending: PendingSession) -> None:
        memo = self._memo(action, pending)
        known = self._refusals.get(memo) if memo is not None else None
        if known is not None and pending.session.priority <= known[0]:
            self._refuse(action, pending, known[1])
            return
        lacks_seats = memo is not None and not self._context.custom_plugins and not self._has_seats(pending)
        proof = None if lacks_seats else self._trial.fits(pending, ())
        if proof is not None:
            # It fits without victims. What is idle is left to allocate, unless evictions have made it fit.
            if not proof.idle or self._outcome.evictions:
                self._trial.commit(pending, ())
                self._table.keep_off(pending.session.session_id)
            return
        self._take(action, pending, memo)

    def _has_seats(self, pending: PendingSession) -> bool:
        """Whether the agents have as many seats as a plain taker needs, now or later; otherwise no trial succeeds."""
        seats = pending.batches[0].shape.future_seats(self._context.workspace)
        return int(seats.sum()) >= pending.need()

    def _take(self, action: str, pending: PendingSession, memo: Memo | None) -> None:
        options = self._options
        rules = EvictionRules(
            action, pending, self._table,
            levels=options.ancestor_reclaim_level, cooling=self._cooling(pending), points=self._points,
        )  # fmt: skip
        found = self._within_budgets(pending, rules)
        over = found is not None and len(self._outcome.evictions) + len(found) > options.evictions_per_cycle
        if found is not None and not over and self._trial.commit(pending, found) is not None:
            # Only now: what is not taken in the end leaves the budgets of its owners to others.
            counted = [row for row in found if not rules.recalled[row]]
            self._budget.spend(pending.session, self._table, counted)
            self._record(action, pending, found)
            return
        left = len(rules.candidates)
        over = over and found is not None and self._trial.fits(pending, found) is not None
        field = "budget" if over else "guarantee" if rules.met_guarantee else "would_not_fit"
        protected = rules.protected._replace(**{field: left})
        if not rules.may_take() and not left:
            protected = Protected(within_share=sum(rules.protected))
        if memo is not None and not protected.budget:
            self._refusals[memo] = (pending.session.priority, protected)
        self._refuse(action, pending, protected)

    def _cooling(self, pending: PendingSession) -> bool:
        """Whether the taker's queue gave to another one lately."""
        gave_ms = self._snapshot.gave_ms.get(pending.node.name)
        return gave_ms is not None and self._snapshot.now_ms - gave_ms < self._options.cool_down * 1000

    def _within_budgets(self, pending: PendingSession, rules: EvictionRules) -> Rows | None:
        """The best set that no owner's budget excludes; a set over budget is not taken in part."""
        while len(rules.candidates):
            seats = SeatCounter(self._context, pending, rules, self._table)
            later = self._proved_later(pending, rules, seats)
            taker = Taker(rules, self._table, seats, self._trial.proofs(pending), proved_later=later)
            found = VictimSearch(taker).best()
            if found is None:
                return None
            counted = [row for row in found if not rules.recalled[row]]
            spent = self._budget.exceeded_by(pending.session, self._table, counted)
            if not spent:
                return found
            if taker.fits(found) is None:
                return None
            rules.leave_out(spent)
        return None

    def _proved_later(self, pending: PendingSession, rules: EvictionRules, seats: SeatCounter) -> bool:
        """Whether the columns propose one set at most, whose commitment is trial enough."""
        return seats.tight and pending.session.topology is None and seats.weigh_alike(rules.candidates)

    def _record(self, action: str, pending: PendingSession, found: Rows) -> None:
        """Record committed evictions; their sessions are neither placed nor takers in this cycle."""
        table, taker = self._table, pending.session.session_id
        for row in found:
            kernel, victim = table.kernels[row], table.sessions[int(table.session[row])].session
            lost_s = table.losses[row] // 1_000_000
            agent = AgentId(str(kernel.agent))
            eviction = Eviction(kernel.kernel_id, victim.session_id, agent, taker, action, lost_s)
            self._outcome.evictions.append(eviction)
            self._evicted.add(victim.session_id)
            table.keep_off(victim.session_id)
            waiting = self._pending.get(victim.session_id)
            if waiting is not None:
                named = taker if victim.owner.user == pending.session.owner.user else "a session of another user"
                waiting.reason = PendingReason(Code.EVICTED, f"kernels of it were evicted in this cycle for {named}")
        table.keep_off(taker)
        if self._context.calendar is not None:
            self._context.calendar.closed = True
        self._refusals.clear()  # room and usage have changed

    def _consolidate(self, pending: PendingSession) -> None:
        """Move sessions for one that lacks nothing but room in one piece; one in a cycle."""
        table, moves = self._table, MoveTrial(self._engine, self._table)
        if self._outcome.moves or not table.movable.any() or self._trial.fits(pending, ()) is not None:
            return
        if not has_scattered_room(self._context.workspace, pending):
            return
        rules = EvictionRules(CONSOLIDATE, pending, table, points=self._points)
        if not len(rules.candidates):
            return
        seats = SeatCounter(self._context, pending, rules, table)
        found = VictimSearch(Taker(rules, table, seats, lambda rows: moves.fits(pending, rows))).best()
        if found is not None and move_cost(table, found, self._options) <= self._options.move_cost_max:
            self._outcome.moves.extend(moves.commit(pending, found))
            for move in self._outcome.moves:
                table.keep_off(move.session_id)
            table.keep_off(pending.session.session_id)
            self._refusals.clear()

    def _refuse(self, action: str, pending: PendingSession, protected: Protected) -> None:
        if not any(protected):
            return  # there is nobody to take from: the room is what is short
        text = f"{action} found no victims: {protected.sentence()}"
        reason = pending.reason or PendingReason(None, shape=first_shape(pending))
        if reason.code is Code.VICTIMS_PROTECTED:
            text = f"{reason.text}; {text}"
        pending.reason = reason._replace(code=Code.VICTIMS_PROTECTED, text=text, refusal=None)

    def _memo(self, action: str, pending: PendingSession) -> Memo | None:
        """The facts that decide the search of a plain taker; one that failed fails for lower priority as well."""
        session = pending.session
        if self._points.used:
            return None  # a plugin may answer differently for each session
        plain = len(pending.batches) == 1 and not (
            session.group_minimums or pending.kernel_groups or pending.best_effort or pending.agents or session.topology
        )
        if not plain or pending.batches[0].nominated != NO_AGENT or pending.batches[0].shape.affinity is not None:
            return None
        owner = session.owner if pending.rules else None
        return (action, pending.node.name, pending.batches[0].shape, pending.need(), owner, session.session_type)
