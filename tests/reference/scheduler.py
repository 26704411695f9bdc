"""The reference scheduler: the rules of a cycle in the plainest form, to compare the real one with.

Nothing is kept that can be worked out again: every kernel looks at every agent, shares
and usage are added up each time they are asked for, and a trial that fails goes back
to a copy. It knows the built-in plugins only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sokovan.domain.policy import Scope
from sokovan.domain.session import TopologyMode
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.reference.choosing import Chooser
from tests.reference.domains import Domain, Network
from tests.reference.machines import ONE, World, kind_of, largest_amounts, machine_of
from tests.reference.owners import Owners
from tests.reference.queues import Queues, shared_out
from tests.reference.turn import Stage, Turn
from tests.reference.work import Failure, Seat, Work


class Decision(NamedTuple):
    """What the cycle comes to. The code of a pending session is None where the rule for it is not plain."""

    placements: list[tuple[str, str]]
    reservations: dict[str, list[tuple[str, str]]]
    pending: dict[str, Code | None]


def reference_schedule(snapshot: SystemSnapshot, profile: SchedulingProfile) -> Decision:
    """Decide where the waiting sessions of a snapshot go."""
    return Cycle(snapshot, profile).decision()


class Cycle:
    """One scheduling cycle."""

    def __init__(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> None:
        self._snapshot, self._profile = snapshot, profile
        self._world = World(
            {str(info.agent_id): machine_of(info) for info in snapshot.agents},
            snapshot.cursors.get(snapshot.scaling_group.name),
        )
        self._chooser = Chooser(snapshot, profile, self._world)
        self._queues = Queues(snapshot, profile)
        self._owners = Owners(snapshot, profile.validators)
        promised = [seat for reservation in snapshot.reservations for seat in reservation.kernels]
        nominations: Mapping[str, str] = {str(kernel): str(agent) for kernel, agent in promised}
        self._stage = Stage(self._world, self._chooser, self._queues, Network(snapshot), nominations)
        self._placements: list[tuple[str, str]] = []
        self._reservations: dict[str, list[tuple[str, str]]] = {}

    def decision(self) -> Decision:
        """Run the actions, and say what came of them."""
        works = self._works()
        for action in self._profile.actions:
            if action == "enqueue":
                self._enqueue(works)
            elif action == "allocate":
                self._allocate(works)
            else:
                self._backfill(works)
        nothing = [work for work in works if not work.placed and not work.reserved]
        pending = {str(work.session.session_id): self._code(work) for work in nothing}
        return Decision(self._placements, self._reservations, pending)

    def _works(self) -> list[Work]:
        """The sessions that wait for something, and the shares of queues by what runs and what could run."""
        largest = largest_amounts(self._snapshot.agents)
        waiting = [s for s in self._snapshot.sessions if any(k.agent is None for k in s.kernels)]
        works = [Work(session, largest, rank) for rank, session in enumerate(self._sequenced(waiting))]
        for session in self._snapshot.sessions:
            for kernel in session.kernels:
                if kernel.agent is not None and not kernel.releasing:
                    self._queues.use(session.queue, kernel)
                    self._queues.want(session.queue, kernel)
        for work in works:
            problem = self._queues.problem(work.session.queue)
            work.failure = Failure(problem) if problem is not None else self._hopeless(work)
            if work.failure is None:
                for kernel in work.waiting:
                    self._queues.want(work.session.queue, kernel)
        self._queues.settle()
        return works

    def _sequenced(self, sessions: Sequence[SessionWorkload]) -> list[SessionWorkload]:
        ordered = sorted(sessions, key=lambda session: (session.submitted, session.session_id))
        if self._profile.sequencer == "lifo":
            ordered.sort(key=lambda session: -session.submitted)
        if self._profile.sequencer == "fair-share":
            ordered.sort(key=lambda session: self._faded(session.owner.user))
        return ordered

    def _faded(self, user: str) -> float:
        """What is left of past usage, by half-life, per unit of weight."""
        policy, now = self._snapshot.fair_share, self._snapshot.now_ms
        mine = [record for record in self._snapshot.history if record.user == user]
        halvings = [(record.amount, max(0, now - record.at_ms) / (policy.half_life_s * 1000)) for record in mine]
        return sum(amount * math.pow(0.5, age) for amount, age in halvings) / policy.weights.get(user, 1)

    def _hopeless(self, work: Work) -> Failure | None:
        """Why a session could not start even if all machines were empty."""
        need = work.minimum - work.counted()
        whole = [kernel for kernel in work.waiting if work.can_be_whole(kernel)]
        if len(whole) < need or not work.ready(work.waiting):
            return Failure(Code.NOT_ENOUGH_KERNELS)
        by_kind = {kind_of(kernel): kernel for kernel in work.waiting}
        times = {kind: sum(1 for kernel in work.waiting if kind_of(kernel) == kind) for kind in by_kind}
        room = {kind: self._room_if_empty(kernel) for kind, kernel in by_kind.items()}
        if sum(min(times[kind], room[kind]) for kind in by_kind) >= need:
            return None
        short = min(work.waiting, key=lambda kernel: room[kind_of(kernel)] - times[kind_of(kernel)])
        if self._held_by_all(work, alive=False) < need:
            return Failure(self._never(short))
        if self._held_by_all(work, alive=True) < need:
            return Failure(Code.NODES_DRAINING)
        return Failure(Code.OTHER_SHARD)

    def _held_by_all(self, work: Work, *, alive: bool) -> float:
        """How many waiting kernels the machines of all shards could hold, those that take no work or not."""
        machines = [m for m in self._world.machines.values() if m.info.schedulable or not alive]
        held = 0.0
        for kind in {kind_of(kernel) for kernel in work.waiting}:
            kernels = [kernel for kernel in work.waiting if kind_of(kernel) == kind]
            room = sum(m.held_if_empty(kernels[0]) for m in machines if m.suits(kernels[0]))
            held += min(len(kernels), room)
        return held

    def _room_if_empty(self, kernel: KernelWorkload) -> float:
        machines = [m for m in self._world.machines.values() if self._chooser.eligible(m, kernel)]
        return sum(machine.held_if_empty(kernel) for machine in machines)

    def _never(self, kernel: KernelWorkload) -> Code:
        """What is wrong with a kernel that no machine can hold."""
        machines = list(self._world.machines.values())
        alive = [machine for machine in machines if machine.info.schedulable]
        same = [machine for machine in alive if machine.info.architecture == kernel.architecture]
        if not machines:
            return Code.NO_NODES
        if not alive and any(machine.suits(kernel) and machine.held_if_empty(kernel) for machine in machines):
            return Code.NODES_DRAINING
        if alive and not same:
            return Code.NO_ARCH_MATCH
        if same and not any(machine.suits(kernel) for machine in same):
            return Code.NO_LABEL_MATCH
        return Code.NEVER_FITS

    def _code(self, work: Work) -> Code | None:
        """The code of a session that got nothing, by what is free at the end."""
        failure = work.failure
        if failure is None:
            return Code.NOT_TRIED if work.waiting else Code.BEST_EFFORT
        if failure.vague:
            return None
        kernel, queue = failure.short, str(work.session.queue)
        if kernel is None or (failure.code is not None and self._queues.contended(queue, kernel)):
            return failure.code
        machines = list(self._world.machines.values())
        suiting = [m for m in machines if m.info.schedulable and m.suits(kernel) and m.held_if_empty(kernel) >= 1]
        if not suiting:
            return self._never(kernel)
        # Where no queue keeps it from what there is, what there is is short.
        eligible = [machine for machine in machines if self._chooser.eligible(machine, kernel)]
        if any(machine.fits_now(kernel) for machine in eligible):
            return Code.FRAGMENTED
        held = any(machine.fits_idle(kernel) for machine in eligible)
        return Code.RESERVED_FOR_GANG if held else Code.NOT_ENOUGH_FREE

    def _enqueue(self, works: Sequence[Work]) -> None:
        """Let sessions in as far as the limits of queues allow."""
        let_in: list[tuple[str, KernelWorkload]] = []
        for work in sorted(works, key=_by_priority):
            if work.failure is not None or work.here:
                continue
            queue = str(work.session.queue)
            asked = work.waiting[: max(0, work.minimum - work.counted())]
            if self._queues.lets_in(queue, asked, let_in):
                let_in.extend((queue, kernel) for kernel in asked)
            else:
                work.failure = Failure(Code.QUEUE_LIMIT)

    def _allocate(self, works: Sequence[Work]) -> None:
        """Sessions with a reservation first, then queue by queue, one session a turn."""
        promised = {reservation.session_id for reservation in self._snapshot.reservations}
        able = [work for work in works if work.failure is None and work.waiting]
        line = [work for work in able if work.session.session_id not in promised]
        first = [work for work in sorted(able, key=_by_priority) if work.session.session_id in promised]
        line.extend([work for work in first if self._serve(work)])
        self._serve_all(line)
        # Where room would stand idle, a queue may pass what it deserves by its last session.
        self._queues.lends = True
        self._serve_all([work for work in able if self._is_over_share(work)])
        self._queues.lends = False
        for work in filter(self._is_over_share, able):
            # Where share and room are both short, either may be named.
            close = work.failure is not None and work.failure.vague
            fits = any(m.fits_now(work.waiting[0]) for m in self._world.machines.values())
            work.failure = Failure(Code.QUEUE_OVER_SHARE, short=work.waiting[0], vague=close or not fits)

    @staticmethod
    def _is_over_share(work: Work) -> bool:
        over = work.failure is not None and work.failure.code is Code.QUEUE_OVER_SHARE
        return over and not work.placed and not work.reserved

    def _serve_all(self, line: list[Work]) -> None:
        """The best session of the best queue, again and again."""
        while line:
            queue = self._queues.next(str(work.session.queue) for work in line)
            mine = [work for work in line if work.session.queue == queue]
            if self._queues.overused(queue):
                for work in mine:
                    # A share may come back, a limit stays: it is named first.
                    limit, _ = self._examined(work)
                    over = Failure(Code.QUEUE_OVER_SHARE, short=work.waiting[0])
                    work.failure = over if limit is None else Failure(limit)
                line = [work for work in line if work not in mine]
                continue
            best = min(mine, key=self._order)
            if not self._serve(best):
                line.remove(best)

    def _order(self, work: Work) -> tuple[object, ...]:
        """Priority; who is not ready before who grows; the share of the user under DRF; the sequencer's order."""
        return (-work.session.priority, work.ready(), self._standing(work.session), work.rank)

    def _standing(self, session: SessionWorkload) -> int:
        if self._profile.sequencer != "drf":
            return 0
        there, shares = shared_out(self._snapshot.agents), [0]
        for slot, used in self._owners.used(Scope.USER, session.owner.user).items():
            shares.append(used * ONE // there[slot] if there[slot] else ONE)
        return max(shares)

    def _serve(self, work: Work) -> bool:
        """One turn; whether the session runs and has kernels left that may come back."""
        session, starts = work.session, work.starts
        code, kernels = self._examined(work)
        if code is not None:
            work.failure = Failure(code)
            return False
        saved = self._world.copied()
        turn = Turn(work, self._stage, kernels)
        if not turn.take():
            asked = work.waiting[: work.missing()]
            limit = self._owners.objection(session, asked, starts=starts) if len(kernels) < len(work.waiting) else None
            work.failure = turn.failure if limit is None else Failure(limit)
            return False
        code = self._owners.objection(session, turn.seated(), starts=starts)
        if code is not None:
            self._world.restore(saved)
            work.failure = Failure(code)
            return False
        self._keep(work, turn)
        return bool(work.waiting) and work.ready()

    def _examined(self, work: Work) -> tuple[Code | None, list[KernelWorkload]]:
        """What the validators have against the next turn, and the kernels that they let take part in it."""
        asked = work.waiting[: work.missing()]
        code = self._owners.objection(work.session, asked, starts=work.starts)
        if code is None:
            return None, work.waiting
        kernels = self._unbarred(work)
        return (None if len(kernels) >= work.missing() else code), kernels

    def _unbarred(self, work: Work) -> list[KernelWorkload]:
        """The kernels of an elastic session that do not pass a limit by their kind alone."""
        if work.missing() >= len(work.waiting):
            return []
        barred = []
        for kind in {kind_of(kernel) for kernel in work.waiting}:
            alike = [kernel for kernel in work.waiting if kind_of(kernel) == kind]
            if self._owners.objection(work.session, alike[: work.missing()], starts=work.starts) is not None:
                barred.append(kind)
        return [kernel for kernel in work.waiting if kind_of(kernel) not in barred]

    def _keep(self, work: Work, turn: Turn) -> None:
        """Count what was found; it starts only if the session is ready with what is placed."""
        session = work.session
        if work.starts and not work.reserved:
            self._owners.begin(session)
        self._owners.take(session, turn.seated())
        for kernel in turn.seated():
            self._queues.use(session.queue, kernel)
        held = [*turn.placed, *turn.bare, *turn.reserved]
        if work.ready([kernel for kernel, _ in turn.placed]):
            self._start(work, [*turn.placed, *turn.bare])
            held = turn.reserved
        if held:
            seats = self._reservations.setdefault(str(session.session_id), [])
            seats.extend((str(kernel.kernel_id), agent) for kernel, agent in held)
            work.reserved += len(held)
        gone = {kernel.kernel_id for kernel, _ in (*turn.placed, *turn.bare, *turn.reserved)}
        work.waiting = [kernel for kernel in work.waiting if kernel.kernel_id not in gone]
        work.bare = [kernel for kernel in work.bare if kernel.kernel_id not in gone]
        work.failure = None

    def _start(self, work: Work, seats: Sequence[Seat]) -> None:
        self._placements.extend((str(kernel.kernel_id), agent) for kernel, agent in seats)
        work.here.extend(seats)
        work.placed += len(seats)

    def _backfill(self, works: Sequence[Work]) -> None:
        """Kernels that ask for nothing, of sessions that nobody refuses."""
        for work in sorted(works, key=_by_priority):
            refused = work.failure is not None and work.failure.code is not None and not work.placed
            if not work.bare or refused:
                continue
            code = None if work.placed or work.reserved else self._examined(work)[0]
            if code is not None:
                work.failure = Failure(code)
            else:
                self._place_bare(work)

    def _place_bare(self, work: Work) -> None:
        """All best-effort kernels that find a place in one domain, if the session runs with them."""
        bare, most = sorted(work.bare, key=lambda kernel: -kernel.priority), 0
        nowhere = Failure(short=work.bare[0])
        for domain in self._domains_for_bare(work):
            saved, seats = self._world.copied(), list[Seat]()
            for kernel in bare:
                agent = self._stage.seat_bare(work, kernel, domain, seats)
                if agent is not None:
                    seats.append((kernel, agent))
            work.bare, most = [], max(most, len(seats))
            if seats and work.ready([kernel for kernel, _ in seats]):
                if work.starts and not work.reserved:
                    self._owners.begin(work.session)
                self._start(work, seats)
                work.bare = [kernel for kernel in bare if kernel not in [placed for placed, _ in seats]]
                return
            work.bare = bare
            self._world.restore(saved)
        alone = most == 0 and work.session.topology is None
        work.failure = work.failure or (nowhere if alone else Failure(Code.BEST_EFFORT))

    def _domains_for_bare(self, work: Work) -> list[Domain]:
        """Anywhere, or for a session with a hard closeness the domains that are close enough."""
        network, topology = self._stage.network, work.session.topology
        if topology is None or topology.mode is TopologyMode.SOFT:
            return [network.root]
        highest = network.highest(topology) or 0
        domains = network.inside(network.root, highest, work.agents())
        return sorted(domains, key=lambda domain: (domain.tier, domain.name))


def _by_priority(work: Work) -> tuple[int, int]:
    return (-work.session.priority, work.rank)
