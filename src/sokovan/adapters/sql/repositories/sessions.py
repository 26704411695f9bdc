"""The repository of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import story
from sokovan.adapters.sql.repositories.session_rows import (
    KernelState,
    SessionState,
    lock_sessions,
    read_records,
    slots_text,
    spec_text,
)
from sokovan.adapters.sql.repositories.transitions import Transitions
from sokovan.adapters.sql.tables import (
    DEPENDENCIES,
    KERNEL_HISTORY,
    KERNELS,
    REQUESTS,
    SCALING_GROUPS,
    SESSION_HISTORY,
    SESSIONS,
)
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.errors import (
    Conflict,
    IdempotencyConflict,
    IllegalTransition,
    InvalidSpec,
    NotFound,
    StaleVersion,
)
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import ALIVE, KERNEL, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.machine import TransitionTable
from sokovan.domain.lifecycle.session import SESSION, Goal
from sokovan.domain.record import Change, HistoryEntry, KernelMove, SessionRecord
from sokovan.domain.session import SessionSpec
from sokovan.ports.sessions import RequestKey, SessionFilter

# Room for this many sessions in one unit of work, in the numbers that order them.
PLACES_PER_UNIT = 1 << 20
# Slots are taken and freed by the allocator and the ledger, together with the lines that prove it.
_NOT_HERE = frozenset({KernelTrigger.ALLOCATED, KernelTrigger.GONE})
_ENDS = frozenset(move.trigger for move in KERNEL.moves if move.before in ALIVE and move.after not in ALIVE)


class SqlSessions:
    """Sessions on SQL. Status changes go through Transitions, and nowhere else."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._ids = sa.select(ids_table(transaction.postgresql).c.id)

    async def enqueue(self, spec: SessionSpec, change: Change, *, request: RequestKey | None = None) -> SessionRecord:
        """See the port."""
        await self._check_references(spec)
        # The key goes with the session: a refused request leaves neither.
        async with self._transaction.savepoint():
            if request is not None and not await self._first_time(request, spec.session_id):
                return await self.get(await self._earlier(request))
            await self.enqueue_all([spec], change)
        return await self.get(spec.session_id)

    async def enqueue_all(self, specs: Sequence[SessionSpec], change: Change) -> None:
        """Store many new sessions, whose references are known to be there."""
        try:
            # Refused, it leaves nothing behind, and the rest of its unit of work can go on.
            async with self._transaction.savepoint():
                await self._insert(specs, change)
        except IntegrityError as error:
            names = ", ".join(spec.session_id for spec in specs[:3])
            raise Conflict(f"a session {names} or one of its kernels is there already") from error

    async def get(self, session_id: SessionId) -> SessionRecord:
        """See the port."""
        records = await read_records(self._transaction, sa.select(SESSIONS).where(SESSIONS.c.session_id == session_id))
        if not records:
            raise NotFound(what="session", name=session_id)
        return records[0]

    async def page(self, wanted: SessionFilter, *, limit: int, after: int = 0) -> Sequence[SessionRecord]:
        """See the port."""
        statement = sa.select(SESSIONS).where(SESSIONS.c.place > after).order_by(SESSIONS.c.place).limit(limit)
        if wanted.statuses:
            statement = statement.where(SESSIONS.c.status.in_([status.value for status in wanted.statuses]))
        if wanted.scaling_group:
            statement = statement.where(SESSIONS.c.scaling_group == wanted.scaling_group)
        if wanted.user:
            statement = statement.where(SESSIONS.c.user == wanted.user)
        if wanted.ids:
            statement = statement.where(SESSIONS.c.session_id.in_(self._ids))
        parameters = bound_ids(self._transaction, list(wanted.ids)) if wanted.ids else None
        return await read_records(self._transaction, statement, parameters)

    async def move_kernels(self, moves: Sequence[KernelMove], change: Change) -> SessionRecord:
        """See the port."""
        if not moves:
            raise InvalidSpec(what="moves", field="kernels", value=moves, problem="names no kernel")
        session = await self._locked(moves[0].kernel.session_id)
        transitions = Transitions(self._transaction, change)
        for move in moves:
            kernel = _unchanged(session, move)
            kernel.exit_code = move.exit_code if move.exit_code is not None else kernel.exit_code
            transitions.move_kernel(session, kernel, move.trigger)
        transitions.settle(session, *_ended_by(moves))
        await transitions.write()
        return await self.get(session.session_id)

    async def want(self, session_id: SessionId, goal: Goal, change: Change) -> SessionRecord:
        """See the port."""
        session = await self._locked(session_id)
        if goal > session.goal and session.status not in SESSION.terminal:
            transitions = Transitions(self._transaction, change)
            session.goal = goal
            trigger = KernelTrigger.STOP_REQUESTED
            for kernel in session.kernels.values():
                if kernel.status is KernelStatus.PENDING:
                    transitions.move_kernel(session, kernel, KernelTrigger.WITHDRAWN)
                elif kernel.status in ALIVE:
                    transitions.move_kernel(session, kernel, trigger)
            _settle_in_steps(transitions, session, trigger)
            await transitions.write()
        return await self.get(session_id)

    async def note(self, session_ids: Sequence[SessionId], change: Change) -> None:
        """See the port."""
        await story.note(self._transaction, SESSION, SESSIONS, ids=session_ids, change=change)

    async def history(self, session_id: SessionId, *, kernels: bool = False) -> Sequence[tuple[str, HistoryEntry]]:
        """See the port."""
        entries = await self._told(SESSION_HISTORY, SESSION_HISTORY.c.object_id == session_id)
        if kernels:
            of_session = sa.select(KERNELS.c.kernel_id).where(KERNELS.c.session_id == session_id)
            entries += await self._told(KERNEL_HISTORY, KERNEL_HISTORY.c.object_id.in_(of_session))
            entries.sort(key=lambda pair: (pair[1].at_ms, pair[0] == session_id, pair[0], pair[1].sequence))
        return entries

    async def _told(self, table: sa.Table, where: sa.ColumnElement[bool]) -> list[tuple[str, HistoryEntry]]:
        statement = sa.select(table).where(where).order_by(table.c.object_id, table.c.sequence)
        return [(row.object_id, story.entry_of(row)) for row in await self._transaction.fetch(statement)]

    async def _locked(self, session_id: SessionId) -> SessionState:
        states = await lock_sessions(self._transaction, [session_id])
        if session_id not in states:
            raise NotFound(what="session", name=session_id)
        return states[session_id]

    async def _first_time(self, request: RequestKey, session_id: SessionId) -> bool:
        """Take the key. The same request in another transaction is waited for here."""
        values = {"scope": request.scope, "key": request.key, "digest": request.digest}
        made = {"session_id": session_id, "at_ms": self._transaction.now_ms}
        return await self._transaction.insert_new(REQUESTS, {**values, **made})

    async def _earlier(self, request: RequestKey) -> SessionId:
        """The session that the same request made before."""
        row = await self._transaction.first(
            sa.select(REQUESTS.c.digest, REQUESTS.c.session_id).where(
                REQUESTS.c.scope == request.scope, REQUESTS.c.key == request.key
            )
        )
        if row is None or row.digest != request.digest:
            raise IdempotencyConflict(f"idempotency key {request.key!r} came with another request before")
        return SessionId(row.session_id)

    async def _check_references(self, spec: SessionSpec) -> None:
        """Name what is missing; a foreign key would only say that something is."""
        group = sa.select(SCALING_GROUPS.c.name).where(SCALING_GROUPS.c.name == spec.scaling_group)
        if await self._transaction.first(group) is None:
            raise NotFound(what="scaling group", name=spec.scaling_group)
        if not spec.dependencies:
            return
        found = await self._transaction.fetch(
            sa.select(SESSIONS.c.session_id).where(SESSIONS.c.session_id.in_(self._ids)),
            bound_ids(self._transaction, spec.dependencies),
        )
        missing = sorted(set(spec.dependencies) - {row.session_id for row in found})
        if missing:
            raise NotFound(what="session", name=missing[0])

    async def _insert(self, specs: Sequence[SessionSpec], change: Change) -> None:
        transaction = self._transaction
        rows = [_session_row(spec, transaction) for spec in specs]
        await story.append(transaction, SESSION.name, [_first(spec.session_id, SESSION) for spec in specs], change)
        await transaction.execute(sa.insert(SESSIONS), rows)
        kernels = [_first(kernel.kernel_id, KERNEL) for spec in specs for kernel in spec.kernels]
        await story.append(transaction, KERNEL.name, kernels, change)
        await transaction.execute(
            sa.insert(KERNELS), [row for spec in specs for row in _kernel_rows(spec, transaction)]
        )
        pairs = [
            {"session_id": spec.session_id, "depends_on": one}
            for spec in specs
            for one in dict.fromkeys(spec.dependencies)
        ]
        if pairs:
            await transaction.execute(sa.insert(DEPENDENCIES), pairs)


def _unchanged(session: SessionState, move: KernelMove) -> KernelState:
    kernel = session.kernels.get(move.kernel.kernel_id)
    if kernel is None or (kernel.status, kernel.version) != (move.kernel.status, move.kernel.version):
        raise StaleVersion(
            what="kernel",
            name=move.kernel.kernel_id,
            expected=f"{move.kernel.status} (version {move.kernel.version})",
            found="nothing" if kernel is None else f"{kernel.status} (version {kernel.version})",
        )
    if move.trigger in _NOT_HERE:
        legal = [trigger.value for trigger in KERNEL.legal_in(kernel.status) if trigger not in _NOT_HERE]
        raise IllegalTransition(machine=KERNEL.name, state=kernel.status, trigger=move.trigger, legal=legal)
    return kernel


def _ended_by(moves: Sequence[KernelMove]) -> tuple[KernelTrigger, list[int | None]]:
    """What the session ends by, if it does; the order of moves that come together decides nothing."""
    endings = [move for move in moves if move.trigger in _ENDS]
    worst = min(endings, key=lambda move: move.trigger is KernelTrigger.EXITED, default=moves[-1])
    return worst.trigger, [move.exit_code for move in endings]


def _settle_in_steps(transitions: Transitions, session: SessionState, trigger: KernelTrigger) -> None:
    """Force passes through TERMINATING, so that the story has every step of the table."""
    if session.goal is Goal.FORCE and session.status not in SESSION.terminal:
        session.goal = Goal.STOP
        transitions.settle(session, trigger)
        session.goal = Goal.FORCE
    transitions.settle(session, trigger)


def _first(object_id: str, table: TransitionTable[Any, Any]) -> story.Line:
    return story.Line(object_id, 1, None, table.initial.value, "submitted")


def _session_row(spec: SessionSpec, transaction: Transaction) -> dict[str, Any]:
    transaction.enqueued += 1
    return {
        "session_id": spec.session_id,
        "place": transaction.number * PLACES_PER_UNIT + transaction.enqueued,
        "status": SESSION.initial.value,
        "version": 1,
        "history_sequence": 1,
        "goal": int(Goal.RUN),
        "session_type": spec.session_type.value,
        "scaling_group": spec.scaling_group,
        "queue": spec.queue,
        "user": spec.owner.user,
        "group": spec.owner.group,
        "domain": spec.owner.domain,
        "access_key": spec.owner.access_key,
        "required": spec.gang_size,
        "submitted_ms": transaction.now_ms,
        "since_ms": transaction.now_ms,
        "stamp": transaction.stamp,
        "body": spec_text(spec),
    }


def _kernel_rows(spec: SessionSpec, transaction: Transaction) -> list[dict[str, Any]]:
    return [
        {
            "kernel_id": kernel.kernel_id,
            "session_id": spec.session_id,
            "index": index,
            "status": KERNEL.initial.value,
            "version": 1,
            "history_sequence": 1,
            "attempt": 1,
            "since_ms": transaction.now_ms,
            "sent": False,
            "slots": slots_text(kernel.slots),
            "architecture": kernel.architecture,
            "require": msgspec.json.encode(dict(kernel.require)).decode(),
            "devices": "{}",
        }
        for index, kernel in enumerate(spec.kernels)
    ]
