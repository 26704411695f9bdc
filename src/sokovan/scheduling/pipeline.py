"""One scheduling cycle: `schedule(snapshot, profile)` returns a plan."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.session import SessionType
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.scheduling.cycle_validators import CycleValidators
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.allocate import Allocate, AllocateOutcome, may_borrow
from sokovan.scheduling.engine.backfill import Backfill
from sokovan.scheduling.engine.enqueue import Enqueue
from sokovan.scheduling.engine.evictions.evict import Evictions
from sokovan.scheduling.engine.evictions.moves import in_transit, with_room_held
from sokovan.scheduling.engine.evictions.trial import EvictingEngine
from sokovan.scheduling.engine.explain import Explainer
from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import BatchingContext, PendingReason, PendingSession
from sokovan.scheduling.engine.queue_order import QueueOrder, SessionHeap, WaitingSessions
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.timing.back_off import back_off, comes_first
from sokovan.scheduling.engine.timing.booking_evictions import evictions_for_bookings
from sokovan.scheduling.engine.timing.calendar import Calendar, blocks_of
from sokovan.scheduling.engine.usage.affinity import AffinityIndex
from sokovan.scheduling.engine.usage.array_usage import ArrayUsage
from sokovan.scheduling.engine.usage.best_effort_usage import BestEffortUsage
from sokovan.scheduling.engine.usage.owner_backlog import OwnerBacklogs
from sokovan.scheduling.engine.usage.owner_ledger import OwnerLedger
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueUsage, shares_of
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.extensions import Extensions, PluginFailed
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import EVICTING_ACTIONS, SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry
from sokovan.scheduling.selection import choice_for
from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import KernelWorkload, Reservation, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Check, Code
from sokovan.scheduling.validators.base import ValidationContext


def schedule(
    snapshot: SystemSnapshot, profile: SchedulingProfile, registry: PluginRegistry = BUILT_IN
) -> SchedulingPlan:
    """Choose agents for the waiting sessions of a snapshot.

    Pure and deterministic: the same snapshot and profile give the same plan on any
    machine. Raises UnknownPlugin for a name that the registry does not have, and
    InvalidTopology for HyperNodes that do not form a tree.
    """
    with _gc_paused():
        return SchedulingCycle(snapshot, profile, registry).plan()


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause the garbage collector during a cycle.

    A cycle creates many small objects next to a large snapshot, and hardly any
    reference cycles; traversing the snapshot repeatedly costs up to a third of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class SchedulingCycle:
    """The objects of one cycle, and its steps in order."""

    def __init__(self, snapshot: SystemSnapshot, profile: SchedulingProfile, registry: PluginRegistry) -> None:
        self._moving = in_transit(snapshot)
        snapshot = with_room_held(snapshot, self._moving) if self._moving else snapshot
        self._snapshot, self._profile = snapshot, profile
        self._sequencer = registry.sequencer(profile.sequencer)
        self._extensions = Extensions(registry.plugin(name) for name in profile.plugins)
        _refuse_duplicates(snapshot)
        slots = _requested_slots(snapshot.sessions)
        best_effort = BestEffortUsage(snapshot) if NO_SLOTS in slots else None
        self._workspace = Workspace(
            snapshot.agents,
            snapshot.tree,
            {slot for one in slots for slot in one},
            ports=_requested_ports(snapshot.sessions),
            now_ms=snapshot.now_ms,
            best_effort=None if best_effort is None else best_effort.by_agent,
        )
        if blocks := blocks_of(snapshot, profile.reserve_depth):
            self._workspace.add_blocks(blocks)
        self._table = _shape_table(self._workspace, profile, snapshot)
        built_in = set(profile.validators) <= set(BUILT_IN.validators) and profile.sequencer in BUILT_IN.sequencers
        self._has_fairness_keys = type(self._sequencer).fairness_key is not WorkloadSequencer.fairness_key
        self._ledger = OwnerLedger(snapshot, watch_all=not built_in, watch_users=self._has_fairness_keys)
        self._backlogs = backlogs = OwnerBacklogs(snapshot)
        self._arrays = ArrayUsage(snapshot.sessions)
        rules = CycleValidators(
            [registry.validator(name) for name in profile.validators],
            ValidationContext(snapshot, self._ledger, backlogs, self._arrays),
        )
        self._admission = SessionAdmission(rules, self._ledger, backlogs, self._extensions, arrays=self._arrays)
        self._queue_usage = QueueUsage(
            snapshot.queues,
            policy=profile.queue_policy,
            hierarchy=profile.hierarchy,
            total=self._workspace.total(),
            slots=self._workspace.slots,
        )
        selector = registry.selector(profile.selector)
        self._rotates = selector.rotates
        group = snapshot.scaling_group
        self._cursor = snapshot.cursors.get(group.name)
        choice = choice_for(
            selector, self._table, self._extensions, slot_priority=group.slot_priority, cursor=self._cursor
        )
        self._context = CycleContext(self._workspace, choice, self._queue_usage, self._extensions)
        self._context.best_effort = best_effort
        if self._workspace.blocks:
            self._context.calendar = Calendar(snapshot, self._workspace, depth=profile.reserve_depth)
        self._context.custom_plugins = bool(profile.plugins) or profile.selector not in BUILT_IN.selectors
        self._context.prefer_lower_tier = profile.prefer_lower_tier
        if not profile.fit_error_cache or not choice.by_shape:
            self._context.fit_error_cache = None
        self._sequencing = SequencingContext(snapshot, self._capacity(), self._ledger)
        self._notes: tuple[Check, ...] = ()
        self._unfit_queues: dict[str, PendingReason | None] = {}

    def plan(self) -> SchedulingPlan:
        """Run the actions of the profile, and explain the outcome."""
        sessions = self.pending_sessions()
        shares = shares_of(self._queue_usage)  # before the actions change what queues use
        outcome, evictions = AllocateOutcome(), None
        for action in self._profile.actions:
            if action == "enqueue":
                Enqueue(self._queue_usage, self._admission, self._extensions, self._new_queue).run(sessions)
            elif action == "allocate":
                self._allocate(sessions, outcome)
            elif action in EVICTING_ACTIONS:
                evictions = evictions or Evictions(
                    self._snapshot, self._profile.eviction_options, self.evicting_engine(outcome), outcome
                )
                evictions.run(action, sessions, self._new_queue)
            else:
                Backfill(self._context, self._admission, outcome).run(sessions)
        if self._snapshot.bookings:
            self._evict_for_bookings(outcome)
        for pending in sessions:
            self._admission.examine(pending)
        trace = Explainer(self._context, now_ms=self._snapshot.now_ms).trace(sessions, notes=self._notes)
        cursor = self._context.choice.cursor
        moved = self._rotates and cursor is not None and cursor != self._cursor
        return SchedulingPlan(
            placements=tuple(outcome.placements),
            reservations=self._reservations(outcome),
            evictions=tuple(outcome.evictions),
            moves=tuple(outcome.moves),
            cursors={self._snapshot.scaling_group.name: AgentId(str(cursor))} if moved else {},
            domains={SessionId(name): domain for name, domain in outcome.domains.items()},
            group_domains={SessionId(name): groups for name, groups in outcome.group_domains.items()},
            loans={SessionId(name): QueueName(lender) for name, lender in outcome.loans.items()},
            verdicts=trace.verdicts,
            shares=shares,
        )

    def _evict_for_bookings(self, outcome: AllocateOutcome) -> None:
        """Evict what has to leave booked agents now, unless it is evicted or moved in this cycle anyway."""
        gone = {str(one.session_id) for one in outcome.evictions} | {str(one.session_id) for one in outcome.moves}
        now_ms, assumed_ms = self._snapshot.now_ms, self._profile.eviction_options.assumed_checkpoint * 1000
        for one in evictions_for_bookings(self._snapshot, gone).due:
            outcome.evictions.extend(one.evictions(now_ms, assumed_ms))

    def _reservations(self, outcome: AllocateOutcome) -> tuple[Reservation, ...]:
        calendar = self._context.calendar
        released = (_reservation(name, kernels) for name, kernels in outcome.reserved.items())
        return (*released, *self._moving, *(() if calendar is None else calendar.reservations()))

    def _allocate(self, sessions: Sequence[PendingSession], outcome: AllocateOutcome) -> None:
        candidates = [pending for pending in sessions if pending.reason is None and pending.batches]
        refused = [pending for pending in sessions if pending.batches and may_borrow(pending)]
        system = [pending for pending in candidates if pending.session.session_type is SessionType.SYSTEM]
        if system:
            # Before all others, whatever their queue, priority or reservation.
            Allocate(self._context, self._admission, outcome, self._new_queue).run(system)
            candidates = [one for one in candidates if one.session.session_type is not SessionType.SYSTEM]
        served_first = self._served_first(candidates)
        first = [pending for pending in candidates if pending.session.session_id in served_first]
        first.sort(key=lambda pending: (-pending.session.priority, pending.rank))
        rest = [pending for pending in candidates if pending.session.session_id not in served_first]
        Allocate(self._context, self._admission, outcome, self._new_queue).run(rest, first=first, refused=refused)

    def _served_first(self, candidates: Sequence[PendingSession]) -> set[str]:
        """The sessions that hold a reservation, and those that were evicted in vain.

        Of these only such as no other of their queue could evict again at once.
        """
        found: set[str] = {reservation.session_id for reservation in self._snapshot.reservations}
        back = [one for one in candidates if comes_first(one.session, self._snapshot.now_ms)]
        if back:
            highest: dict[str, int] = {}
            for one in candidates:
                highest[one.node.name] = max(one.session.priority, highest.get(one.node.name, one.session.priority))
            found.update(one.session.session_id for one in back if one.session.priority >= highest[one.node.name])
        return found

    def evicting_engine(self, outcome: AllocateOutcome | None = None) -> EvictingEngine:
        """The parts of the cycle that evictions work on."""
        outcome = outcome or AllocateOutcome()
        allocate = Allocate(self._context, self._admission, outcome, self._new_queue)
        backfill = Backfill(self._context, self._admission, outcome)
        return EvictingEngine(self._context, self._table, self._ledger, allocate, backfill)

    def pending_sessions(self) -> list[PendingSession]:
        """The sessions with waiting kernels, in order; computes the shares of queues."""
        nominations = _nominations(self._snapshot.reservations)
        batching = BatchingContext(self._table, nominations, self._kernel_key(), self._batch_equal())
        requested: Counter[tuple[str, Shape]] = Counter()
        running, charges, shape_of = self._table.running, list[str](), self._table.of
        running.clear()
        sessions = {}
        for session in self._snapshot.sessions:
            waits, charged, before = False, session.charged, len(running)
            for kernel in session.kernels:
                if kernel.agent is None:
                    waits = True
                elif not kernel.releasing:
                    # A kernel being released no longer counts as usage of its queue.
                    running.append(shape_of(kernel))
            charges.extend(repeat(charged, len(running) - before))
            if waits:
                pending = self._pending_session(session, self._queue_usage.node(charged), batching)
                sessions[session.session_id] = pending
                # Sessions that cannot run request no share of the cluster; an eviction does not change that.
                cannot_run = pending.reason is not None and pending.reason.code is not Code.BACKING_OFF
                if not cannot_run and (session.array_limit is None or self._arrays.may_request(session)):
                    for batch in pending.batches:
                        requested[session.queue, batch.shape] += len(batch.kernels)
        self._settle_queues(requested, Counter(zip(charges, running, strict=True)))
        ranked = self._sequenced([pending.session for pending in sessions.values()])
        system = [session for session in ranked if session.session_type is SessionType.SYSTEM]
        if system:
            ranked = [*system, *(session for session in ranked if session.session_type is not SessionType.SYSTEM)]
        for rank, session in enumerate(ranked):
            sessions[session.session_id].rank = rank
        self._order_by_plugins(sessions.values())
        return [sessions[session.session_id] for session in ranked]

    def _order_by_plugins(self, sessions: Iterable[PendingSession]) -> None:
        if not self._extensions.at("session_order"):
            return
        for pending in sessions:
            try:
                answers = self._extensions.call_all("session_order", pending.session)
                pending.order = tuple(number for answer in answers for number in answer)
            except PluginFailed as failed:
                pending.reason = pending.reason or PendingReason(Code.PLUGIN_FAILED, str(failed))

    def _pending_session(self, session: SessionWorkload, node: QueueNode, batching: BatchingContext) -> PendingSession:
        if session.gates:
            pending = PendingSession(session, node, BatchingContext(batching.table))
            pending.reason = PendingReason(Code.HELD, f"held by {', '.join(session.gates)}, until it is released")
            return pending
        try:
            pending = PendingSession(session, node, batching)
        except PluginFailed as failed:
            pending = PendingSession(session, node, BatchingContext(batching.table))
            pending.reason = PendingReason(Code.PLUGIN_FAILED, str(failed))
            return pending
        if node.name not in self._unfit_queues:
            unfit = self._queue_usage.unfit(node)
            self._unfit_queues[node.name] = None if unfit is None else PendingReason(*unfit)
        calendar = self._context.calendar
        booked = None if calendar is None else calendar.objection(pending)
        reason = self._unfit_queues[node.name] or booked or self._admission.unschedulable(pending)
        if reason is None and session.evictions_ms:
            reason = back_off(session, self._snapshot.now_ms)
        pending.reason = reason
        if reason is not None:
            self._backlogs.remove(session)
        return pending

    def _settle_queues(self, requested: Mapping[tuple[str, Shape], int], used: Mapping[tuple[str, Shape], int]) -> None:
        for (queue, shape), times in used.items():
            self._queue_usage.add_running(queue, shape.slot_pairs, times)
            self._queue_usage.add_request(queue, shape.slot_pairs, times)
        for (queue, shape), times in requested.items():
            self._queue_usage.add_request(queue, shape.slot_pairs, times)
        if self._extensions.at("queue_order"):
            self._queue_usage.order_key = self._queue_key
        self._queue_usage.settle()

    def _sequenced(self, sessions: list[SessionWorkload]) -> list[SessionWorkload]:
        try:
            ordered = list(self._sequencer.sequence(sessions, self._sequencing))
            before, after = ([session.session_id for session in some] for some in (sessions, ordered))
            if sorted(before) == sorted(after):
                return ordered
            problem = f"sequencer {self._sequencer.name} lost or duplicated sessions"
        except Exception as error:  # noqa: BLE001  # a failing plugin must not stop the cycle
            problem = f"sequencer {self._sequencer.name} failed: {type(error).__name__}: {error}"
        self._note("sequencer", f"{problem}; sessions go by age")
        return by_age(sessions)

    def _note(self, name: str, text: str) -> None:
        """Record a problem that concerns all sessions; every verdict includes it."""
        note = Check(name, "no", text)
        if note not in self._notes:
            self._notes = (*self._notes, note)

    def _new_queue(self) -> WaitingSessions:
        return QueueOrder(self._fairness_key, self._share) if self._has_fairness_keys else SessionHeap()

    def _fairness_key(self, pending: PendingSession) -> str:
        try:
            return str(self._sequencer.fairness_key(pending.session))
        except Exception as error:  # noqa: BLE001  # a failing plugin must not stop the cycle
            self._note_sequencer_error("fairness_key", error)
            return ""

    def _share(self, pending: PendingSession) -> int:
        try:
            return int(self._sequencer.share(pending.session, self._sequencing))
        except Exception as error:  # noqa: BLE001  # a failing plugin must not stop the cycle
            self._note_sequencer_error("share", error)
            return 0

    def _note_sequencer_error(self, method: str, error: Exception) -> None:
        text = f"sequencer {self._sequencer.name} failed in {method}: {type(error).__name__}: {error}"
        self._note("sequencer", text)

    def _batch_equal(self) -> bool:
        """Whether no plugin can treat kernels of one shape differently."""
        points = ("predicate", "pre_predicate", "allocatable", "batch_agent_order", "agent_order_map", "best_agent")
        return not any(self._extensions.at(point) for point in points)

    def _kernel_key(self) -> Callable[[KernelWorkload], tuple[object, ...]] | None:
        if not self._extensions.at("kernel_order"):
            return None
        return lambda kernel: tuple(self._extensions.call_all("kernel_order", kernel))

    def _queue_key(self, node: QueueNode) -> tuple[int, ...]:
        try:
            answers = self._extensions.call_all("queue_order", self._queue_usage.view(node))
        except PluginFailed as failed:
            self._note("plugin", str(failed))
            return ()
        return tuple(number for answer in answers for number in answer)

    def _capacity(self) -> ResourceSlot:
        workspace = self._workspace
        return ResourceSlot(dict(zip(workspace.slots, workspace.total(), strict=True)))


def _refuse_duplicates(snapshot: SystemSnapshot) -> None:
    """Raise InvalidSpec if two agents or two sessions have the same id."""
    for field, ids in (
        ("agents", [agent.agent_id for agent in snapshot.agents]),
        ("sessions", [session.session_id for session in snapshot.sessions]),
    ):
        if len(set(ids)) != len(ids):
            duplicate = next(name for name, times in Counter[str](ids).items() if times > 1)
            raise InvalidSpec(what="snapshot", field=field, value=duplicate, problem="occurs more than once")


def _shape_table(workspace: Workspace, profile: SchedulingProfile, snapshot: SystemSnapshot) -> ShapeTable:
    sharded = profile.shard_mode != "none"
    return ShapeTable(
        workspace,
        own_shard=profile.shard if sharded else None,
        hard_shards=profile.shard_mode == "hard",
        now_ms=snapshot.now_ms,
        affinity=AffinityIndex(snapshot.sessions, workspace),
    )


def _requested_slots(sessions: Sequence[SessionWorkload]) -> set[ResourceSlot]:
    # Many kernels share one object: those are compared by identity first, which needs no hash of their amounts.
    shared = {id(kernel.slots): kernel.slots for session in sessions for kernel in session.kernels}
    return set(shared.values())


def _requested_ports(sessions: Sequence[SessionWorkload]) -> set[int]:
    distinct = {kernel.ports for session in sessions for kernel in session.kernels}
    return {port for ports in distinct for port in ports}


def _nominations(reservations: Sequence[Reservation]) -> dict[str, str]:
    return {kernel: agent for reservation in reservations for kernel, agent in reservation.kernels}


def _reservation(name: str, kernels: Sequence[tuple[str, str]]) -> Reservation:
    return Reservation(SessionId(name), tuple((KernelId(kernel), AgentId(agent)) for kernel, agent in kernels))
