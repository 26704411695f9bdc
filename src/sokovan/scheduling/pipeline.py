"""One scheduling cycle: `schedule(snapshot, profile)` gives a plan."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.cycle_validators import CycleValidators
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.allocate import Allocate, AllocateOutcome
from sokovan.scheduling.engine.backfill import Backfill
from sokovan.scheduling.engine.enqueue import Enqueue
from sokovan.scheduling.engine.explain import Explainer
from sokovan.scheduling.engine.pending_session import Failure, Outlook, PendingSession
from sokovan.scheduling.engine.placement import CycleContext
from sokovan.scheduling.engine.queue_order import QueueOrder, SessionHeap
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.usage.owner_ledger import OwnerLedger, PendingLines
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueUsage
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.extensions import Extensions, PluginFailed
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import ACTIONS, SchedulingProfile, UnsupportedAction
from sokovan.scheduling.registry import BUILT_IN, PluginRegistry
from sokovan.scheduling.selection import choice_for
from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import KernelWorkload, Reservation, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Check, Code
from sokovan.scheduling.validators.base import ValidationContext


def schedule(
    snapshot: SystemSnapshot, profile: SchedulingProfile, registry: PluginRegistry = BUILT_IN
) -> SchedulingPlan:
    """Decide where the waiting sessions of a snapshot go.

    Pure and deterministic: the same snapshot and profile give the same plan on any
    machine. Raises UnknownPlugin for a name that the registry does not have,
    UnsupportedAction for an action that is not there yet, and InvalidTopology for
    HyperNodes that are no tree.
    """
    for action in profile.actions:
        if action not in ACTIONS:
            raise UnsupportedAction(f"the action {action} is not there yet")
    with _collector_at_rest():
        return Cycle(snapshot, profile, registry).plan()


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Let the garbage collector rest for the length of a cycle.

    A cycle makes many small objects beside a snapshot of very many, and hardly any
    reference cycles; walking the snapshot again and again costs up to a third of the
    time, and decides nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Cycle:
    """Everything that one cycle sets up once, in the order of the story it tells."""

    def __init__(self, snapshot: SystemSnapshot, profile: SchedulingProfile, registry: PluginRegistry) -> None:
        self._snapshot, self._profile = snapshot, profile
        self._sequencer = registry.sequencer(profile.sequencer)
        self._extensions = Extensions(registry.plugin(name) for name in profile.plugins)
        _refuse_doubles(snapshot)
        self._workspace = Workspace(snapshot.agents, snapshot.tree, _asked_slots(snapshot.sessions))
        self._table = _shapes(self._workspace, profile)
        own = set(profile.validators) <= set(BUILT_IN.validators) and profile.sequencer in BUILT_IN.sequencers
        moves = type(self._sequencer).lane is not WorkloadSequencer.lane
        self._ledger = OwnerLedger(snapshot, watch_all=not own, watch_users=moves)
        self._pending = PendingLines(snapshot)
        rules = CycleValidators(
            [registry.validator(name) for name in profile.validators],
            ValidationContext(snapshot, self._ledger, self._pending),
        )
        self._admission = SessionAdmission(rules, self._ledger, self._pending, self._extensions)
        self._book = QueueUsage(
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
        self._floor = CycleContext(self._workspace, choice, self._book, self._extensions)
        self._floor.plugged = bool(profile.plugins) or profile.selector not in BUILT_IN.selectors
        if not profile.fit_error_cache or not choice.by_shape:
            self._floor.misfits = None
        self._context = SequencingContext(snapshot, self._capacity(), self._ledger)
        self._notes: tuple[Check, ...] = ()
        self._unfit: dict[str, Failure | None] = {}

    def plan(self) -> SchedulingPlan:
        """Run the actions of the profile, and explain what came of it."""
        outlook = Outlook(self._table, _nominations(self._snapshot.reservations), self._kernel_key(), self._alike())
        jobs = self._jobs(outlook)
        outcome = AllocateOutcome()
        for action in self._profile.actions:
            if action == "enqueue":
                Enqueue(self._book, self._workspace.slots).run(jobs)
            elif action == "allocate":
                self._allocate(jobs, outcome)
            else:
                Backfill(self._floor, self._admission, outcome).run(jobs)
        for job in jobs:
            self._admission.examine(job)
        verdicts = Explainer(self._workspace, self._book, self._floor).verdicts(jobs, notes=self._notes)
        cursor = self._floor.choice.cursor
        moved = self._rotates and cursor is not None and cursor != self._cursor
        return SchedulingPlan(
            placements=tuple(outcome.placements),
            reservations=tuple(_reservation(name, seats) for name, seats in outcome.reserved.items()),
            cursors={self._snapshot.scaling_group.name: AgentId(str(cursor))} if moved else {},
            domains={SessionId(name): domain for name, domain in outcome.domains.items()},
            verdicts=tuple(verdicts),
        )

    def _allocate(self, jobs: Sequence[PendingSession], outcome: AllocateOutcome) -> None:
        promised = {reservation.session_id for reservation in self._snapshot.reservations}
        able = [job for job in jobs if job.failure is None and job.runs]
        first = [job for job in able if job.session.session_id in promised]
        first.sort(key=lambda job: (-job.session.priority, job.rank))
        rest = [job for job in able if job.session.session_id not in promised]
        Allocate(self._floor, self._admission, outcome, self._lanes).run(rest, first=first)

    def _jobs(self, outlook: Outlook) -> list[PendingSession]:
        """The sessions that wait for something, in the sequencer's order, with their queues settled."""
        asked: Counter[tuple[str, Shape]] = Counter()
        used: Counter[tuple[str, Shape]] = Counter()
        jobs = {}
        for session in self._snapshot.sessions:
            waits = False
            for kernel in session.kernels:
                if kernel.agent is None:
                    waits = True
                elif not kernel.releasing:
                    # What is on its way out is no longer its queue's; others may count on it.
                    used[session.queue, self._table.of(kernel)] += 1
            if waits:
                job = self._job(session, outlook)
                jobs[session.session_id] = job
                # Work that cannot run claims no share of the cluster.
                if job.failure is None:
                    for run in job.runs:
                        asked[session.queue, run.shape] += len(run.kernels)
        self._settle(asked, used)
        ranked = self._sequenced([job.session for job in jobs.values()])
        for rank, session in enumerate(ranked):
            jobs[session.session_id].rank = rank
        self._order_by_plugins(jobs.values())
        return [jobs[session.session_id] for session in ranked]

    def _order_by_plugins(self, jobs: Iterable[PendingSession]) -> None:
        if not self._extensions.at("session_order"):
            return
        for job in jobs:
            try:
                job.order = tuple(n for key in self._extensions.ask("session_order", job.session) for n in key)
            except PluginFailed as failed:
                job.failure = job.failure or Failure(Code.PLUGIN_FAILED, str(failed))

    def _job(self, session: SessionWorkload, outlook: Outlook) -> PendingSession:
        try:
            job = PendingSession(session, self._book.node(session.queue), outlook)
        except PluginFailed as failed:
            job = PendingSession(session, self._book.node(session.queue), Outlook(outlook.table))
            job.failure = Failure(Code.PLUGIN_FAILED, str(failed))
            return job
        node = job.node
        if node.name not in self._unfit:
            unfit = self._book.unfit(node)
            self._unfit[node.name] = None if unfit is None else Failure(*unfit)
        job.failure = self._unfit[node.name] or self._admission.hopeless(job)
        return job

    def _settle(self, asked: Mapping[tuple[str, Shape], int], used: Mapping[tuple[str, Shape], int]) -> None:
        for (queue, shape), times in used.items():
            self._book.use(queue, shape.slot_pairs, times)
            self._book.ask(queue, shape.slot_pairs, times)
        for (queue, shape), times in asked.items():
            self._book.ask(queue, shape.slot_pairs, times)
        if self._extensions.at("queue_order"):
            self._book.order_key = self._queue_key
        self._book.settle()

    def _sequenced(self, sessions: list[SessionWorkload]) -> list[SessionWorkload]:
        try:
            ordered = list(self._sequencer.sequence(sessions, self._context))
            given, got = ([s.session_id for s in some] for some in (sessions, ordered))
            if sorted(given) == sorted(got):
                return ordered
            problem = f"sequencer {self._sequencer.name} lost or doubled sessions"
        except Exception as error:  # noqa: BLE001  # a plugin that fails must not stop the cycle
            problem = f"sequencer {self._sequencer.name} failed: {type(error).__name__}: {error}"
        self._note("sequencer", f"{problem}; sessions go by age")
        return by_age(sessions)

    def _note(self, name: str, text: str) -> None:
        """Something that went wrong for all sessions; every verdict says so."""
        note = Check(name, "no", text)
        if note not in self._notes:
            self._notes = (*self._notes, note)

    def _lanes(self) -> SessionHeap | QueueOrder:
        if type(self._sequencer).lane is WorkloadSequencer.lane:
            return SessionHeap()
        return QueueOrder(self._lane, self._standing)

    def _lane(self, job: PendingSession) -> str:
        try:
            return str(self._sequencer.lane(job.session))
        except Exception as error:  # noqa: BLE001  # a plugin that fails must not stop the cycle
            self._note("sequencer", f"sequencer {self._sequencer.name} failed in lane: {type(error).__name__}: {error}")
            return ""

    def _standing(self, job: PendingSession) -> int:
        try:
            return int(self._sequencer.standing(job.session, self._context))
        except Exception as error:  # noqa: BLE001  # a plugin that fails must not stop the cycle
            text = f"sequencer {self._sequencer.name} failed in standing: {type(error).__name__}: {error}"
            self._note("sequencer", text)
            return 0

    def _alike(self) -> bool:
        """Whether kernels of one shape are alike to everybody."""
        points = ("predicate", "pre_predicate", "allocatable", "batch_agent_order", "agent_order_map", "best_agent")
        return not any(self._extensions.at(point) for point in points)

    def _kernel_key(self) -> Callable[[KernelWorkload], tuple[object, ...]] | None:
        if not self._extensions.at("kernel_order"):
            return None
        return lambda kernel: tuple(self._extensions.ask("kernel_order", kernel))

    def _queue_key(self, node: QueueNode) -> tuple[int, ...]:
        try:
            answers = self._extensions.ask("queue_order", self._book.view(node))
        except PluginFailed as failed:
            self._note("plugin", str(failed))
            return ()
        return tuple(number for answer in answers for number in answer)

    def _capacity(self) -> ResourceSlot:
        workspace = self._workspace
        return ResourceSlot(dict(zip(workspace.slots, workspace.total(), strict=True)))


def _refuse_doubles(snapshot: SystemSnapshot) -> None:
    """Two agents or sessions of one id would silently be one."""
    for field, ids in (
        ("agents", [agent.agent_id for agent in snapshot.agents]),
        ("sessions", [session.session_id for session in snapshot.sessions]),
    ):
        if len(set(ids)) != len(ids):
            twice = next(name for name, times in Counter[str](ids).items() if times > 1)
            raise InvalidSpec(what="snapshot", field=field, value=twice, problem="is there twice")


def _shapes(workspace: Workspace, profile: SchedulingProfile) -> ShapeTable:
    if profile.shard_mode == "none":
        return ShapeTable(workspace)
    return ShapeTable(workspace, own_shard=profile.shard, hard_shards=profile.shard_mode == "hard")


def _asked_slots(sessions: Sequence[SessionWorkload]) -> set[str]:
    distinct = {kernel.slots for session in sessions for kernel in session.kernels}
    return {slot for slots in distinct for slot in slots}


def _nominations(reservations: Sequence[Reservation]) -> dict[str, str]:
    return {kernel: agent for reservation in reservations for kernel, agent in reservation.kernels}


def _reservation(name: str, seats: Sequence[tuple[str, str]]) -> Reservation:
    return Reservation(SessionId(name), tuple((KernelId(kernel), AgentId(agent)) for kernel, agent in seats))
