"""The reference scheduler: a simple implementation that the engine is compared with.

Nothing is cached: every kernel is checked against every agent, shares and usage are
summed each time, and a failed attempt restores a copy. It has the built-in plugins only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from sokovan.domain.owners.past_usage import UsageScope
from sokovan.domain.session import SessionType, TopologyMode
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.reference.choosing import Chooser
from tests.reference.domains import Domain, Network
from tests.reference.machines import ONE, ClusterState, fails, kind_of, largest_amounts, machine_of
from tests.reference.owners import Owners
from tests.reference.placement import CycleState, PlacementAttempt
from tests.reference.queues import Queues, total_slots
from tests.reference.sessions import PlacedKernel, Reason, WaitingSession
from tests.reference.timing import Timetable
from tests.reference.usage import decayed


class Decision(NamedTuple):
    """The outcome of a cycle. The code of a pending session is None if several codes are right.

    `starts` are the times from which on room is held for sessions, `loans` the lenders of those
    that borrow.
    """

    placements: list[tuple[str, str]]
    reservations: dict[str, list[tuple[str, str]]]
    pending: dict[str, Code | None]
    starts: Mapping[str, int]
    loans: Mapping[str, str]


def reference_schedule(snapshot: SystemSnapshot, profile: SchedulingProfile) -> Decision:
    """Choose agents for the waiting sessions of a snapshot."""
    return Cycle(snapshot, profile).decision()


class Cycle:
    """One scheduling cycle."""

    def __init__(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
        self._snapshot, self._profile = snapshot, profile
        self._cluster = ClusterState(
            {str(info.agent_id): machine_of(info, snapshot) for info in snapshot.agents},
            snapshot.cursors.get(snapshot.scaling_group.name),
        )
        self._timetable = Timetable(snapshot, self._cluster, profile.reserve_depth)
        self._timed = bool(snapshot.bookings or any(one.time_limit_ms is not None for one in snapshot.sessions))
        self._chooser = Chooser(snapshot, profile, self._cluster, self._timetable)
        self._queues = Queues(snapshot, profile)
        self._owners = Owners(snapshot, profile.validators)
        reserved = [seat for reservation in snapshot.reservations for seat in reservation.kernels]
        nominations: Mapping[str, str] = {str(kernel): str(agent) for kernel, agent in reserved}
        self._cycle = CycleState(
            self._cluster, self._chooser, self._queues, Network(snapshot), nominations, profile.prefer_lower_tier,
            snapshot.scaling_group.best_effort_per_user_max,
        )  # fmt: skip
        for session in snapshot.sessions:
            running = sum(kernel.agent is not None and not kernel.slots for kernel in session.kernels)
            self._cycle.best_effort[session.owner.user] += running if session.session_type.is_charged else 0
        self._placements: list[tuple[str, str]] = []
        self._reservations: dict[str, list[tuple[str, str]]] = {}
        self._loans: dict[str, str] = {}

    def decision(self) -> Decision:
        """Run the actions, and return the outcome."""
        sessions = self._waiting_sessions()
        for action in self._profile.actions:
            if action == "enqueue":
                self._enqueue(sessions)
            elif action == "allocate":
                self._allocate(sessions)
            else:
                self._backfill(sessions)
        held = [hold.session for hold in self._timetable.holds]
        served = [pending for pending in sessions if pending.placed or pending.reserved or pending.session in held]
        unplaced = [pending for pending in sessions if pending not in served]
        pending = {str(pending.session.session_id): self._code(pending) for pending in unplaced}
        for hold in self._timetable.holds:
            seats = [(str(kernel.kernel_id), agent) for kernel, agent in hold.kernels]
            self._reservations[str(hold.session.session_id)] = seats
        starts = {str(hold.session.session_id): hold.starts_ms for hold in self._timetable.holds}
        return Decision(self._placements, self._reservations, pending, starts, self._loans)

    def _waiting_sessions(self) -> list[WaitingSession]:
        """The sessions with waiting kernels; computes the shares of queues by what runs and what could run."""
        largest = largest_amounts(self._snapshot.agents)
        waiting = [s for s in self._snapshot.sessions if any(k.agent is None for k in s.kernels)]
        sessions = [WaitingSession(session, largest, rank) for rank, session in enumerate(self._sequenced(waiting))]
        for session in self._snapshot.sessions:
            for kernel in session.kernels:
                if kernel.agent is not None and not kernel.releasing:
                    self._queues.add_usage(session.charged, kernel)
                    self._queues.add_request(session.queue, kernel)
        for pending in sessions:
            problem = Code.HELD if pending.session.gates else self._queues.problem(pending.session.queue)
            if problem is None and self._timetable.refused(pending.session):
                problem = Code.BOOKED
            pending.reason = Reason(problem) if problem is not None else self._unschedulable(pending)
            if pending.reason is not None:
                self._owners.leave_out(pending.session)
        for pending in self._requesting([pending for pending in sessions if pending.reason is None]):
            for kernel in pending.waiting:
                self._queues.add_request(pending.session.queue, kernel)
        self._queues.settle()
        return sessions

    def _requesting(self, sessions: Sequence[WaitingSession]) -> list[WaitingSession]:
        """The sessions without those of an array beyond its limit, in the order of the snapshot."""
        order = [session.session_id for session in self._snapshot.sessions]
        chosen: list[WaitingSession] = []
        for pending in sorted(sessions, key=lambda pending: order.index(pending.session.session_id)):
            session = pending.session
            running = [
                one
                for one in self._snapshot.sessions
                if one.array == session.array and any(kernel.agent is not None for kernel in one.kernels)
            ]
            others = [one for one in chosen if one.session.array == session.array and one.session not in running]
            limit = session.array_limit
            if limit is None or session in running or len(running) + len(others) < limit:
                chosen.append(pending)
        return chosen

    def _sequenced(self, sessions: Sequence[SessionWorkload]) -> list[SessionWorkload]:
        ordered = sorted(sessions, key=lambda session: (session.submitted, session.session_id))
        if self._profile.sequencer == "lifo":
            ordered.sort(key=lambda session: -session.submitted)
        if self._profile.sequencer == "fair-share":
            ordered.sort(key=lambda session: self._usage_by_weight(UsageScope.USER, session.owner.user))
            ordered.sort(key=lambda session: self._usage_by_weight(UsageScope.GROUP, session.owner.group))
        return sorted(ordered, key=lambda session: session.session_type is not SessionType.SYSTEM)

    def _usage_by_weight(self, scope: UsageScope, name: str) -> Fraction:
        """Past usage, decayed by half-life, per unit of weight."""
        policy, now = self._snapshot.fair_share, self._snapshot.now_ms
        used = Fraction(0)
        for record in self._snapshot.history:
            if (record.scope, record.name) == (scope, name):
                weight = policy.slot_weights.get(record.slot, 1)
                used += weight * decayed(record, now_ms=now, half_life_ms=policy.half_life_s * 1000)
        weights = policy.weights if scope is UsageScope.USER else policy.group_weights
        return used / weights.get(name, 1)

    def _unschedulable(self, pending: WaitingSession) -> Reason | None:
        """Why a session could not start even if all machines were empty."""
        need = pending.minimum - pending.counted()
        whole = [kernel for kernel in pending.waiting if pending.can_be_whole(kernel)]
        if len(whole) < need or not pending.ready(pending.waiting):
            return Reason(Code.NOT_ENOUGH_KERNELS)
        by_kind = {kind_of(kernel): kernel for kernel in pending.waiting}
        times = {kind: sum(1 for kernel in pending.waiting if kind_of(kernel) == kind) for kind in by_kind}
        room = {kind: self._room_if_empty(kernel) for kind, kernel in by_kind.items()}
        if sum(min(times[kind], room[kind]) for kind in by_kind) >= need:
            return None
        short = min(pending.waiting, key=lambda kernel: room[kind_of(kernel)] - times[kind_of(kernel)])
        if self._held_by_all(pending, alive=False) < need:
            return Reason(self._never(short))
        if self._held_by_all(pending, alive=True, failing=True) < need:
            return Reason(Code.NODES_DRAINING)
        if self._held_by_all(pending, alive=True) < need:
            return Reason(Code.AGENTS_FAILING)
        if self._held_by_all(pending, alive=True, own=True) < need:
            return Reason(Code.OTHER_SHARD)
        return Reason(Code.AGENTS_AVOIDED)

    def _held_by_all(self, pending: WaitingSession, *, alive: bool, own: bool = False, failing: bool = False) -> float:
        """How many waiting kernels the machines (of all shards) could hold, schedulable or not."""
        machines = [
            m for m in self._cluster.machines.values() if m.info.schedulable or not alive or (failing and fails(m))
        ]
        if own and self._profile.shard_mode == "hard":
            machines = [m for m in machines if m.info.shard == self._profile.shard]
        held = 0.0
        for kind in {kind_of(kernel) for kernel in pending.waiting}:
            kernels = [kernel for kernel in pending.waiting if kind_of(kernel) == kind]
            room = sum(m.held_if_empty(kernels[0]) for m in machines if m.suits(kernels[0]))
            held += min(len(kernels), room)
        return held

    def _room_if_empty(self, kernel: KernelWorkload) -> float:
        machines = [m for m in self._cluster.machines.values() if self._chooser.eligible(m, kernel)]
        return sum(machine.held_if_empty(kernel) for machine in machines)

    def _never(self, kernel: KernelWorkload) -> Code:
        """The code of a kernel that no machine can hold."""
        machines = list(self._cluster.machines.values())
        alive = [machine for machine in machines if machine.info.schedulable]
        same = [machine for machine in alive if machine.info.architecture == kernel.architecture]
        if not machines:
            return Code.NO_NODES
        if not alive and any(machine.suits(kernel) and machine.held_if_empty(kernel) for machine in machines):
            suited = [machine for machine in machines if machine.suits(kernel) and machine.held_if_empty(kernel)]
            return Code.AGENTS_FAILING if any(fails(machine) for machine in suited) else Code.NODES_DRAINING
        if alive and not same:
            return Code.NO_ARCH_MATCH
        running = [machine for machine in same if machine.runs(kernel)]
        if same and not running:
            return Code.NO_RUNTIME_MATCH
        if running and not any(machine.has_labels(kernel) for machine in running):
            return Code.NO_LABEL_MATCH
        able = [machine for machine in alive if machine.has_labels(kernel) and machine.held_if_empty(kernel)]
        if able and all(machine.repels(kernel) for machine in able):
            return Code.AGENTS_TAINTED
        return Code.NEVER_FITS

    def _code(self, pending: WaitingSession) -> Code | None:
        """The code of an unplaced session, by what is free at the end."""
        reason = pending.reason
        if reason is None:
            return Code.NOT_TRIED if pending.waiting else Code.BEST_EFFORT
        if reason.vague or self._timed:
            return None
        kernel, queue = reason.short, str(pending.session.queue)
        if kernel is None or (reason.code is not None and self._queues.contended(queue, kernel)):
            return reason.code
        machines = list(self._cluster.machines.values())
        suiting = [m for m in machines if m.info.schedulable and m.suits(kernel) and m.held_if_empty(kernel) >= 1]
        if not suiting:
            return self._never(kernel)
        # If the queue may use all that the cluster has, the cluster is what is short.
        eligible = [machine for machine in machines if self._chooser.eligible(machine, kernel)]
        if self._chooser.concerned(kernel):
            return None
        if any(machine.fits_now(kernel) for machine in eligible):
            return Code.FRAGMENTED
        if any(machine.fits_without_holders(kernel) for machine in eligible):
            return Code.RESERVED_FOR_GANG
        return Code.PORTS_TAKEN if any(m.fits_without_ports(kernel) for m in eligible) else Code.NOT_ENOUGH_FREE

    def _enqueue(self, sessions: Sequence[WaitingSession]) -> None:
        """Refuse sessions that exceed a limit of their queue whatever else starts; validators come first."""
        for pending in sessions:
            if pending.reason is not None or pending.running:
                continue
            need = max(0, pending.minimum - pending.counted())
            over = self._queues.over_limit(str(pending.session.queue), pending.waiting, need)
            if over and self._examined(pending)[0] is None:
                pending.reason = Reason(Code.QUEUE_LIMIT)

    def _allocate(self, sessions: Sequence[WaitingSession]) -> None:
        """System sessions before all others, without regard to reservations."""
        system = [pending for pending in sessions if pending.session.session_type is SessionType.SYSTEM]
        if any(pending.reason is None and pending.waiting for pending in system):
            self._allocate_part(system, reserved=frozenset())
        reserved = frozenset(str(reservation.session_id) for reservation in self._snapshot.reservations)
        self._allocate_part([pending for pending in sessions if pending not in system], reserved=reserved)

    def _allocate_part(self, sessions: Sequence[WaitingSession], *, reserved: frozenset[str]) -> None:
        """Sessions with a reservation first, then queue by queue, one session per attempt.

        A session whose reservation still waits comes after the work of higher priority.
        """
        able = [pending for pending in sessions if pending.reason is None and pending.waiting]
        waiting = [pending for pending in able if pending.session.session_id not in reserved]
        first = [pending for pending in sorted(able, key=_by_priority) if pending.session.session_id in reserved]
        for holder in first:
            grows = self._serve(holder, may_reserve=False)
            if not holder.placed:
                above = [pending for pending in waiting if pending.session.priority > holder.session.priority]
                self._serve_all(list(above))
                waiting = [pending for pending in waiting if pending not in above]
                grows = self._serve(holder)
            if grows:
                waiting.append(holder)
        self._serve_all(waiting)
        # If agents would stay idle, a queue may exceed its deserved share by one session.
        self._queues.lending = True
        self._serve_all([pending for pending in able if self._is_over_share(pending)])
        self._queues.lending = False
        for pending in able:
            self._borrow(pending)
        for pending in filter(self._is_over_share, able):
            # If share and room are both short, either code is right.
            close = pending.reason is not None and pending.reason.vague
            fits = any(m.fits_now(pending.waiting[0]) for m in self._cluster.machines.values())
            pending.reason = Reason(Code.QUEUE_OVER_SHARE, short=pending.waiting[0], vague=close or not fits)

    def _borrow(self, pending: WaitingSession) -> None:
        """Start a session that only its queue refuses on what another one is guaranteed and does not use."""
        reason, session = pending.reason, pending.session
        refused = reason is not None and reason.code in {Code.QUEUE_LIMIT, Code.QUEUE_OVER_SHARE}
        if not session.borrow or not refused or pending.placed or pending.reserved or pending.running:
            return
        home, asked = pending.queue, pending.waiting[: pending.missing()]
        before = len(self._placements)
        for lender in self._queues.lenders(home, session.grace_ms, asked):
            pending.queue = lender
            self._serve(pending, may_reserve=False)
            if len(self._placements) > before:
                self._loans[str(session.session_id)] = lender
                return
        pending.queue, pending.reason = home, reason

    @staticmethod
    def _is_over_share(pending: WaitingSession) -> bool:
        over = pending.reason is not None and pending.reason.code is Code.QUEUE_OVER_SHARE
        return over and not pending.placed and not pending.reserved

    def _serve_all(self, waiting: list[WaitingSession]) -> None:
        """Serve the best session of the best queue until none is left."""
        while waiting:
            queue = self._queues.next(str(pending.session.queue) for pending in waiting)
            mine = [pending for pending in waiting if pending.session.queue == queue]
            if self._queues.overused(queue):
                for pending in mine:
                    # A limit is reported before a share, which may come back.
                    limit, _ = self._examined(pending)
                    over = Reason(Code.QUEUE_OVER_SHARE, short=pending.waiting[0])
                    pending.reason = over if limit is None else Reason(limit)
                waiting = [pending for pending in waiting if pending not in mine]
                continue
            best = min(mine, key=self._order)
            if not self._serve(best):
                waiting.remove(best)
                self._hold_in_time(best)

    def _lacks_only_room(self, pending: WaitingSession) -> bool:
        """Whether room is the reason, or a queue that may use all that the cluster has."""
        reason = pending.reason
        if reason is None or reason.code not in {None, Code.QUEUE_LIMIT, Code.QUEUE_OVER_SHARE}:
            return False
        contended = any(self._queues.contended(pending.queue, kernel) for kernel in pending.waiting)
        return reason.code is None or not contended

    def _hold_in_time(self, pending: WaitingSession) -> None:
        """Hold room for a session that lacks nothing else, from the first time at which it fits whole."""
        timetable = self._timetable
        if not self._lacks_only_room(pending) or not timetable.may_hold(pending):
            return
        for at_ms, there in timetable.later(pending.session):
            saved = self._cluster.copy()
            self._cluster.restore(there)
            timetable.trial, self._queues.ended = True, timetable.ended_by(at_ms)
            attempt = PlacementAttempt(pending, self._cycle, pending.waiting, may_reserve=True)
            fits = attempt.take()
            timetable.trial, self._queues.ended = False, frozenset()
            self._cluster.restore(saved)
            if fits:
                timetable.hold(pending, [*attempt.placed, *attempt.reserved], at_ms)
                return

    def _order(self, pending: WaitingSession) -> tuple[object, ...]:
        """Priority; sessions below their minimum; the user's share under DRF; the sequencer's order."""
        return (-pending.session.priority, pending.ready(), self._user_share(pending.session), pending.rank)

    def _user_share(self, session: SessionWorkload) -> int:
        if self._profile.sequencer != "drf":
            return 0
        there, shares = total_slots(self._snapshot.agents), [0]
        for slot, used in self._owners.used_here(session.owner.user).items():
            if there[slot]:
                shares.append(used * ONE // there[slot])
        return max(shares)

    def _serve(self, pending: WaitingSession, *, may_reserve: bool = True) -> bool:
        """One attempt; True if the session runs and has kernels left."""
        session, starts = pending.session, pending.starts
        self._timetable.session = session
        code, kernels = self._examined(pending)
        if code is not None:
            pending.reason = Reason(code)
            return False
        saved = self._cluster.copy()
        attempt = PlacementAttempt(pending, self._cycle, kernels, may_reserve=may_reserve)
        if not attempt.take():
            request = pending.waiting[: pending.missing()]
            limit = (
                self._owners.objection(session, request, starts=starts) if len(kernels) < len(pending.waiting) else None
            )
            pending.reason = attempt.reason if limit is None else Reason(limit)
            return False
        code = self._owners.objection(session, attempt.kernels(), starts=starts)
        if code is not None:
            self._cluster.restore(saved)
            pending.reason = Reason(code)
            return False
        self._keep(pending, attempt)
        return bool(pending.waiting) and pending.ready()

    def _examined(self, pending: WaitingSession) -> tuple[Code | None, list[KernelWorkload]]:
        """The validators' objection to the next attempt, and the kernels that they allow in it."""
        request = pending.waiting[: pending.missing()]
        code = self._owners.objection(pending.session, request, starts=pending.starts)
        if code is None:
            return None, pending.waiting
        kernels = self._within_limits(pending)
        return (None if len(kernels) >= pending.missing() else code), kernels

    def _within_limits(self, pending: WaitingSession) -> list[KernelWorkload]:
        """The kernels of an elastic session whose kind alone does not exceed a limit."""
        if pending.missing() >= len(pending.waiting):
            return []
        excluded = []
        for kind in {kind_of(kernel) for kernel in pending.waiting}:
            alike = [kernel for kernel in pending.waiting if kind_of(kernel) == kind]
            if self._owners.objection(pending.session, alike[: pending.missing()], starts=pending.starts) is not None:
                excluded.append(kind)
        return [kernel for kernel in pending.waiting if kind_of(kernel) not in excluded]

    def _keep(self, pending: WaitingSession, attempt: PlacementAttempt) -> None:
        """Record the attempt; the session starts only if it is ready with what is placed."""
        session = pending.session
        if pending.starts and not pending.reserved:
            self._owners.begin(session)
        self._owners.take(session, attempt.kernels())
        self._count_best_effort(session, len(attempt.best_effort))
        for kernel in attempt.kernels():
            self._queues.add_usage(pending.queue, kernel)
        held = [*attempt.placed, *attempt.best_effort, *attempt.reserved]
        if pending.ready([kernel for kernel, _ in attempt.placed]):
            self._start(pending, [*attempt.placed, *attempt.best_effort])
            held = attempt.reserved
        else:
            for kernel, agent in (*attempt.placed, *attempt.best_effort):
                self._cluster.machines[agent].held.append(kernel)
        if held:
            kernels_placed = self._reservations.setdefault(str(session.session_id), [])
            kernels_placed.extend((str(kernel.kernel_id), agent) for kernel, agent in held)
            pending.reserved += len(held)
        gone = {kernel.kernel_id for kernel, _ in (*attempt.placed, *attempt.best_effort, *attempt.reserved)}
        pending.waiting = [kernel for kernel in pending.waiting if kernel.kernel_id not in gone]
        pending.best_effort = [kernel for kernel in pending.best_effort if kernel.kernel_id not in gone]
        pending.reason = None

    def _count_best_effort(self, session: SessionWorkload, count: int) -> None:
        if session.session_type.is_charged:
            self._cycle.best_effort[session.owner.user] += count

    def _start(self, pending: WaitingSession, kernels_placed: Sequence[PlacedKernel]) -> None:
        self._placements.extend((str(kernel.kernel_id), agent) for kernel, agent in kernels_placed)
        self._timetable.started(pending.session, kernels_placed)
        pending.running.extend(kernels_placed)
        pending.placed += len(kernels_placed)

    def _backfill(self, sessions: Sequence[WaitingSession]) -> None:
        """Best-effort kernels of sessions that are not refused."""
        for pending in sorted(sessions, key=_by_priority):
            refused = pending.reason is not None and pending.reason.code is not None and not pending.placed
            if not pending.best_effort or refused:
                continue
            code = None if pending.placed or pending.reserved else self._examined(pending)[0]
            if code is not None:
                pending.reason = Reason(code)
            else:
                self._place_best_effort(pending)

    def _place_best_effort(self, pending: WaitingSession) -> None:
        """Place all best-effort kernels that fit in one domain, if the session runs with them."""
        best_effort, most = sorted(pending.best_effort, key=lambda kernel: -kernel.priority), 0
        nowhere, left = Reason(short=pending.best_effort[0]), self._cycle.best_effort_left(pending.session)
        for domain in self._domains_for_best_effort(pending):
            saved, kernels_placed = self._cluster.copy(), list[PlacedKernel]()
            for kernel in best_effort:
                if len(kernels_placed) >= left:
                    break
                agent = self._cycle.place_best_effort(pending, kernel, domain, kernels_placed)
                if agent is not None:
                    kernels_placed.append((kernel, agent))
            pending.best_effort, most = [], max(most, len(kernels_placed))
            if kernels_placed and pending.ready([kernel for kernel, _ in kernels_placed]):
                if pending.starts and not pending.reserved:
                    self._owners.begin(pending.session)
                self._count_best_effort(pending.session, len(kernels_placed))
                self._start(pending, kernels_placed)
                pending.best_effort = [
                    kernel for kernel in best_effort if kernel not in [placed for placed, _ in kernels_placed]
                ]
                return
            pending.best_effort = best_effort
            self._cluster.restore(saved)
        alone = most == 0 and pending.session.topology is None and left >= len(best_effort)
        pending.reason = pending.reason or (nowhere if alone else Reason(Code.BEST_EFFORT))

    def _domains_for_best_effort(self, pending: WaitingSession) -> list[Domain]:
        """The root, or for a hard topology the domains that it allows."""
        network, topology = self._cycle.network, pending.session.topology
        if topology is None or topology.mode is TopologyMode.SOFT:
            return [network.root]
        highest = network.highest(topology) or 0
        domains = network.inside(network.root, highest, pending.agents())
        return sorted(domains, key=lambda domain: (domain.tier, domain.name))


def _by_priority(pending: WaitingSession) -> tuple[int, int]:
    return (-pending.session.priority, pending.rank)
