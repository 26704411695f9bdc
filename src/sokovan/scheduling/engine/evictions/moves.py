"""MoveTrial: proves that a session fits if others move, and these as well.

Takes a session and the rows of running kernels. Gives a proof, or on commit the places that
the kernels move to. One Statement takes these off their agents and places the session;
further ones place every kernel that moves again, without victims. A set with a session that
would come back to its own agents is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sokovan.domain.ids import AgentId
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.engine.evictions.rules import EvictionOptions, demand_of
from sokovan.scheduling.engine.evictions.trial import EvictingEngine, Proof, UsageTakenOff
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.pending_session import BatchingContext, PendingSession
from sokovan.scheduling.engine.placement import PlacementAttempt
from sokovan.scheduling.engine.statement import Statement, TrialChanges
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.plan import Relocation
from sokovan.scheduling.snapshot import Reservation, SystemSnapshot, agents_holding, loss_slots


class MoveTrial:
    """Tries sets of kernels to move for one session."""

    def __init__(self, engine: EvictingEngine, table: VictimTable) -> None:
        self._engine, self._table, self._context = engine, table, engine.context

    def fits(self, pending: PendingSession, rows: Sequence[int]) -> Proof | None:
        """Whether the session and all that move have places; nothing changes."""
        return Proof(0, idle=False) if self._run(pending, rows, keep=False) is not None else None

    def commit(self, pending: PendingSession, rows: Sequence[int]) -> list[Relocation]:
        """Reserve the places of the session and of all that move."""
        return self._run(pending, rows, keep=True) or []

    def _run(self, pending: PendingSession, rows: Sequence[int], *, keep: bool) -> list[Relocation] | None:
        context = self._context
        moves: list[Relocation] | None = None
        with context.tried(pending) as trial:
            statement = trial.statement()
            if self._place(pending, rows, statement):
                moves = self._placed_again(pending, rows, trial)
            trial.kept = keep and moves is not None
        if trial.kept:
            if context.fit_error_cache is not None:
                context.fit_error_cache.clear()
            self._engine.allocate.reserve(pending, statement)
        return moves

    def _place(self, pending: PendingSession, rows: Sequence[int], statement: Statement) -> bool:
        table, allocate = self._table, self._engine.allocate
        for row in rows:
            statement.evict(table.shapes[int(table.shape[row])], int(table.agent[row]))
        if allocate.refused(pending) or not pending.batches:
            return False
        return allocate.fits(pending, statement, PlacementAttempt(pending, self._context, statement, released=True))

    def _placed_again(
        self, pending: PendingSession, rows: Sequence[int], trial: TrialChanges
    ) -> list[Relocation] | None:
        """Places for all that move; None if one has none, or would stay."""
        context, table, moves = self._context, self._table, list[Relocation]()
        for number, part in table.by_session(rows).items():
            mover = self._mover(number, part)
            usage = UsageTakenOff(context, self._engine.ledger, table, part)
            statement = trial.statement()
            attempt = PlacementAttempt(mover, context, statement, released=True)
            try:
                fits = not self._engine.allocate.refused(mover) and attempt.run()
            finally:
                usage.restore()
            if not fits or len(statement.kernels) < len(part):
                return None
            moves.extend(self._moves(pending, mover, part, statement))
        elsewhere = {move.session_id for move in moves if move.agent_id != move.from_agent}
        return moves if all(move.session_id in elsewhere for move in moves) else None

    def _mover(self, number: int, part: Sequence[int]) -> PendingSession:
        """The session with the kernels that move as waiting ones."""
        victim = self._table.sessions[number]
        gone = {self._table.kernels[row].kernel_id for row in part}
        kernels = tuple(
            replace(kernel, agent=None) if kernel.kernel_id in gone else kernel for kernel in victim.kernels
        )
        session = replace(victim.session, kernels=kernels, min_kernels=len(kernels))
        mover = PendingSession(session, victim.node, BatchingContext(self._engine.shapes))
        if self._context.calendar is not None:
            self._context.calendar.prepare(mover)
        return mover

    def _moves(
        self, pending: PendingSession, mover: PendingSession, part: Sequence[int], statement: Statement
    ) -> Iterator[Relocation]:
        table, ids = self._table, self._context.workspace.ids
        row_of = {table.kernels[row].kernel_id: row for row in part}
        for _, kernel, agent in statement.kernels:
            row = row_of[kernel.kernel_id]
            yield Relocation(
                kernel.kernel_id, mover.session.session_id, table.agent_id(row),
                AgentId(ids[agent]), pending.session.session_id, table.losses[row] // 1_000_000,
            )  # fmt: skip


def in_transit(snapshot: SystemSnapshot) -> tuple[Reservation, ...]:
    """The places of kernels that move: what they run on is being released.

    Kernels of a moving session that are not listed any more wait for the rest of it.
    """
    reserved = {one.session_id: one for one in snapshot.reservations if one.starts_ms is None}
    found = []
    for session in snapshot.sessions if reserved else ():
        if session.session_id not in reserved or not any(kernel.releasing for kernel in session.kernels):
            continue
        staying = {kernel.kernel_id for kernel in session.kernels if not kernel.releasing}
        pairs = tuple(pair for pair in reserved[session.session_id].kernels if pair[0] not in staying)
        if any(kernel.kernel_id in dict(pairs) for kernel in session.kernels):
            found.append(Reservation(session.session_id, pairs))
    return tuple(found)


def with_room_held(snapshot: SystemSnapshot, moving: Sequence[Reservation]) -> SystemSnapshot:
    """The snapshot with the places of sessions in transit taken.

    A kernel that is not listed any more waits for the rest of its session, and needs what
    others of it do.
    """
    sessions = {one.session_id: one for one in snapshot.sessions}
    held: dict[AgentId, list[ResourceSlot]] = {}
    for reservation in moving:
        kernels = {kernel.kernel_id: kernel for kernel in sessions[reservation.session_id].kernels}
        first = next(iter(kernels.values()))
        for kernel_id, agent_id in reservation.kernels:
            held.setdefault(agent_id, []).append(kernels.get(kernel_id, first).slots)
    return replace(snapshot, agents=agents_holding(snapshot.agents, held))


def has_scattered_room(workspace: Workspace, pending: PendingSession) -> bool:
    """Whether the agents together have what the session needs."""
    asked = [0] * workspace.slot_count
    for shape, count in demand_of(pending):
        for column, amount in shape.slot_pairs:
            asked[column] += amount * count
    free = workspace.future[workspace.alive, : workspace.slot_count].clip(min=0).sum(axis=0).tolist()
    return all(amount <= there for amount, there in zip(asked, free, strict=True))


def move_cost(table: VictimTable, rows: Sequence[int], options: EvictionOptions) -> int:
    """The work that is lost by moving rows, and their restarts, in slot seconds."""
    restarts = sum(loss_slots(table.kernels[row].slots) for row in rows) * options.restart_cost // 1000
    return sum(table.losses[row] for row in rows) // 1_000_000 + restarts
