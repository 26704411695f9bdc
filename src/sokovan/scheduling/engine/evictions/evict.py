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

from sokovan.domain.lifecycle.eviction import CONSOLIDATE
from sokovan.domain.session import Preemption
from sokovan.scheduling.engine.allocate import AllocateOutcome
from sokovan.scheduling.engine.evictions.choices import ChosenVictims, Memo, RefusalCache, TakerRefusal
from sokovan.scheduling.engine.evictions.moves import MoveTrial, has_scattered_room, move_cost
from sokovan.scheduling.engine.evictions.points import EvictionPoints, isolated
from sokovan.scheduling.engine.evictions.rules import (
    EvictionOptions,
    EvictionRules,
    Protected,
    first_shape,
    without,
)
from sokovan.scheduling.engine.evictions.search import VictimSearch
from sokovan.scheduling.engine.evictions.seats import SeatCounter
from sokovan.scheduling.engine.evictions.taker import Taker
from sokovan.scheduling.engine.evictions.trial import EvictingEngine, EvictionTrial
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.pending_session import NO_AGENT, PendingReason, PendingSession
from sokovan.scheduling.engine.queue_order import WaitingSessions, serve_by_queue
from sokovan.scheduling.engine.timing.owner_budget import OwnerBudget
from sokovan.scheduling.engine.usage.queue_usage import QueueNode
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code

# The reasons with which a session may lack nothing but room or its queue's limit.
_STARVING = frozenset({None, Code.QUEUE_OVER_SHARE, Code.QUEUE_LIMIT, Code.BEST_EFFORT, Code.VICTIMS_PROTECTED})


class Evictions:
    """The evictions of one cycle, over all its actions."""

    def __init__(
        self, snapshot: SystemSnapshot, options: EvictionOptions, engine: EvictingEngine, outcome: AllocateOutcome
    ) -> None:
        self._snapshot, self._options, self._engine, self._outcome = snapshot, options, engine, outcome
        self._context = engine.context
        self._points = EvictionPoints(engine.context.extensions, engine.context.queue_usage)
        self._pending: dict[str, PendingSession] = {}
        self._refusals = RefusalCache()
        self._evicted: set[str] = set()
        # Takers of an earlier cycle have their victims until their reservation is redeemed or broken.
        self._holding = {one.session_id for one in snapshot.reservations if one.starts_ms is None}
        self._budget = OwnerBudget(snapshot, options.owner_budget)
        self._counted = 0  # evictions of this cycle, without recalled kernels

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
        known = None
        if memo is not None:
            known = self._refusals.of(memo, priority=pending.session.priority, need=pending.need())
        if known is not None:
            self._refuse(action, pending, known)
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
        chosen = self._within_budgets(pending, rules)
        found = None if chosen is None else chosen.rows
        counted = without(found or (), rules.recalled)  # a recall asks no budget, and spends none
        over = bool(counted) and self._counted + len(counted) > options.evictions_per_cycle
        if chosen is not None and not over and self._trial.commit(pending, chosen.rows) is not None:
            # Only now: what is not taken in the end leaves the budgets to others.
            self._counted += len(counted)
            self._budget.spend(pending.session, self._sessions_of(counted))
            self._record(rules, pending, chosen)
            return
        left = len(rules.candidates)
        over = over and found is not None and self._trial.fits(pending, found) is not None
        field = "budget" if over else "guarantee" if rules.met_guarantee else "would_not_fit"
        protected = rules.protected._replace(**{field: left})
        if not rules.may_take() and not left:
            rule = "cool_down" if rules.cools_down else "beyond_share"
            protected = Protected(**{rule: sum(rules.protected)})
        refusal = TakerRefusal.of(rules, self._table, protected)
        if memo is not None and not protected.budget:
            self._refusals.put(memo, refusal, priority=pending.session.priority, need=pending.need())
        self._refuse(action, pending, refusal)

    def _cooling(self, pending: PendingSession) -> bool:
        """Whether the taker's queue gave to another one lately."""
        gave_ms = self._snapshot.gave_ms.get(pending.node.name)
        return gave_ms is not None and self._snapshot.now_ms - gave_ms < self._options.cool_down * 1000

    def _within_budgets(self, pending: PendingSession, rules: EvictionRules) -> ChosenVictims | None:
        """The best set that no owner's budget excludes; a set over budget is not taken in part."""
        while len(rules.candidates):
            seats = SeatCounter(self._context, pending, rules, self._table)
            later = self._proved_later(pending, rules, seats)
            taker = Taker(rules, self._table, seats, self._trial.proofs(pending), proved_later=later)
            search = VictimSearch(taker)
            found = search.best()
            if found is None:
                return None
            counted = self._sessions_of(without(found, rules.recalled))
            spent = self._budget.exceeded_by(pending.session, counted, self._table.kernels_of)
            if not spent:
                return ChosenVictims.of(rules, found, search.runner_up)
            if taker.fits(found) is None:
                return None
            rules.leave_out(spent)
        return None

    def _sessions_of(self, rows: Sequence[int]) -> list[SessionWorkload]:
        """The session of each row."""
        return [self._table.sessions[int(self._table.session[row])].session for row in rows]

    def _proved_later(self, pending: PendingSession, rules: EvictionRules, seats: SeatCounter) -> bool:
        """Whether the columns propose one set at most, whose commitment is trial enough."""
        return seats.tight and pending.session.topology is None and seats.weigh_alike(rules.candidates)

    def _record(self, rules: EvictionRules, pending: PendingSession, chosen: ChosenVictims) -> None:
        """Record committed evictions; their sessions are neither placed nor takers in this cycle."""
        table, taker = self._table, pending.session.session_id
        for one in chosen.evictions(rules, table, taker):
            victim = table.sessions[table.index[one.session_id]].session
            self._outcome.evictions.append(one)
            self._evicted.add(victim.session_id)
            table.keep_off(victim.session_id)
            waiting = self._pending.get(victim.session_id)
            if waiting is not None:
                named = taker if victim.owner.user == pending.session.owner.user else "a session of another user"
                waiting.reason = PendingReason(Code.EVICTED, f"kernels of it were evicted in this cycle for {named}")
        table.keep_off(taker)
        pending.evicts = len(chosen.rows)
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
        search = VictimSearch(Taker(rules, table, seats, lambda rows: moves.fits(pending, rows)))
        found = search.best()
        if found is not None and move_cost(table, found, self._options) <= self._options.move_cost_max:
            _, cost, second = ChosenVictims.of(rules, found, search.runner_up)
            notices = {table.kernels[row].kernel_id: table.notice_ms(row) for row in found}
            self._outcome.moves.extend(
                one._replace(cost=cost, runner_up=second, notice_ms=notices.get(one.kernel_id))
                for one in moves.commit(pending, found)
            )
            pending.evicts = len(found)
            for move in self._outcome.moves:
                table.keep_off(move.session_id)
            table.keep_off(pending.session.session_id)
            self._refusals.clear()

    def _refuse(self, action: str, pending: PendingSession, refusal: TakerRefusal) -> None:
        if not any(refusal.protected):
            return  # there are no victims: room is what is short
        text = f"{action} found no victims: {refusal.protected.sentence(refusal.until_ms)}"
        reason = pending.reason or PendingReason(None, shape=first_shape(pending))
        if reason.code is not None and reason.text:
            text = f"{reason.text}; {text}"
        until = [one for one in (reason.until_ms, refusal.until_ms) if one is not None]
        # The refusal of a queue stays: it is in the way as well.
        pending.reason = reason._replace(code=Code.VICTIMS_PROTECTED, text=text, until_ms=min(until, default=None))

    def _memo(self, action: str, pending: PendingSession) -> Memo | None:
        """The facts that decide the search of a plain taker; the number of its kernels aside."""
        session = pending.session
        if self._points.used:
            return None  # a plugin may answer differently for each session
        plain = len(pending.batches) == 1 and not (
            session.group_minimums or pending.kernel_groups or pending.best_effort or pending.agents or session.topology
        )
        if not plain or pending.batches[0].nominated != NO_AGENT or pending.batches[0].shape.affinity is not None:
            return None
        owner = session.owner if pending.rules else None
        return (action, pending.node.name, pending.batches[0].shape, owner, session.session_type)
