"""Session repository on SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.sessions import (
    checkpoints,
    enqueueing,
    kernel_lists,
    session_lists,
    session_names,
    stored_specs,
)
from sokovan.adapters.sql.repositories.sessions.changes import (
    changed_sessions,
    ended_holding,
    taker_sessions,
    users_of,
    waiting_users,
    with_changed_takers,
)
from sokovan.adapters.sql.repositories.sessions.session_rows import (
    BY_ID,
    SessionRow,
    chosen_by_id,
    lock_sessions,
    read_records,
)
from sokovan.adapters.sql.repositories.sessions.transitions import Transitions, give_notice, withdraw_eviction
from sokovan.adapters.sql.schema.tables import KERNEL_HISTORY, KERNELS, SESSION_HISTORY, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids
from sokovan.domain.errors import Conflict, IllegalTransition, InvalidSpec, ObjectNotFound, SokovanError, StaleVersion
from sokovan.domain.ids import SessionId, is_name
from sokovan.domain.lifecycle.kernel import ALIVE, KERNEL, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal
from sokovan.domain.owners.usage_history import UsageBy, UsageOf, UsageSeries, UsageWindow
from sokovan.domain.records import (
    Change,
    HistoryEntry,
    KernelMove,
    KernelRecord,
    KernelSummary,
    SessionRecord,
    SessionSummary,
    ended_by_user,
)
from sokovan.domain.session import SessionSpec, SessionType
from sokovan.ports.repositories.sessions import (
    OLDEST_FIRST,
    NewSession,
    RequestKey,
    SessionFilter,
    SessionOrder,
    SessionPosition,
    SessionProperty,
    Taker,
)

# Only the allocator and the ledger take and free slots, together with their ledger rows.
_RESERVED = frozenset({KernelTrigger.ALLOCATED, KernelTrigger.GONE, KernelTrigger.REQUEUED})
_ENDS = frozenset(move.trigger for move in KERNEL.moves if move.before in ALIVE and move.after not in ALIVE)


class SqlSessions:
    """Sessions on SQL. All status changes go through Transitions."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def enqueue(
        self,
        spec: SessionSpec,
        change: Change,
        *,
        request: RequestKey | None = None,
        in_place_of: SessionId | None = None,
        sealed: str = "",
    ) -> SessionRecord:
        """See the port."""
        await self._lock_names([spec])
        [outcome] = await self._enqueue_disjoint([NewSession(spec, change, request, sealed)])
        if isinstance(outcome, SokovanError):
            raise outcome
        if in_place_of is not None:
            await stored_specs.replace_dependency(self._transaction, in_place_of, outcome.session_id)
        return outcome

    async def enqueue_many(self, wanted: Sequence[NewSession]) -> Sequence[SessionRecord | SokovanError]:
        """See the port."""
        outcomes: dict[int, SessionRecord | SokovanError] = {}
        left = list(enumerate(wanted))
        await self._lock_names([one.spec for one in wanted])
        while left:
            now, left = enqueueing.split_conflicting(left)
            results = await self._enqueue_disjoint([new for _, new in now])
            outcomes.update(zip((place for place, _ in now), results, strict=True))
            refused, left = enqueueing.split_namesakes(left, results)
            outcomes.update(refused)
        return [outcomes[place] for place in range(len(wanted))]

    async def requested(self, request: RequestKey) -> SessionRecord | None:
        """See the port."""
        earlier = await enqueueing.find_earlier(self._transaction, request)
        return None if earlier is None else await self.get(enqueueing.replayed_session(earlier, request))

    async def _lock_names(self, specs: Sequence[SessionSpec]) -> None:
        # The name of an array is locked when it is added.
        alone = [(spec.owner.user, spec.name) for spec in specs if spec.array is None]
        await session_names.lock_names(self._transaction, alone)

    async def _enqueue_disjoint(self, new: Sequence[NewSession]) -> list[SessionRecord | SokovanError]:
        """Enqueue sessions that have no id, name or key in common."""
        new = await enqueueing.with_successors(self._transaction, new)
        found = await enqueueing.read_preconditions(self._transaction, new)
        checked = [await self._precheck(session, rows) for session, rows in zip(new, found, strict=True)]
        fresh = [session for session, outcome in zip(new, checked, strict=True) if outcome is None]
        inserted = iter(await self._insert(fresh) if fresh else ())
        return [next(inserted) if outcome is None else outcome for outcome in checked]

    async def _precheck(self, new: NewSession, found: enqueueing.Preconditions) -> SessionRecord | SokovanError | None:
        """The outcome of a session that is not to be inserted, or None."""
        try:
            if new.request is not None and found.earlier is not None:
                return await self.get(enqueueing.replayed_session(found.earlier, new.request))
            found.check(new.spec)
        except SokovanError as refused:
            return refused
        return None

    async def _insert(self, fresh: Sequence[NewSession]) -> Sequence[SessionRecord | SokovanError]:
        try:
            # One block with the keys: a refused request leaves neither key nor session.
            async with self._transaction.prechecked():
                return await enqueueing.insert(self._transaction, fresh)
        except (IntegrityError, enqueueing.RequestKeyTaken) as error:
            if not self._transaction.postgresql:
                raise  # SQLite has one writer, so the preconditions still hold: this is a bug
            if len(fresh) == 1 and isinstance(error, IntegrityError):
                return [session_names.conflict_of(fresh[0].spec, error)]
        # A concurrent transaction committed after the precheck: check and insert each session again, alone.
        return [outcome for new in fresh for outcome in await self._enqueue_disjoint([new])]

    async def get(self, session_id: SessionId) -> SessionRecord:
        """See the port."""
        # Invalid names are not queried: PostgreSQL rejects some strings.
        bound = {"the_session_id": session_id}
        valid = is_name(session_id)
        records = await read_records(self._transaction, BY_ID, bound) if valid else []
        if not records:
            raise ObjectNotFound(what="session", name=session_id)
        return records[0]

    async def page(
        self, wanted: SessionFilter, *, limit: int, after: int | None = None, newest: bool = False
    ) -> Sequence[SessionRecord]:
        """See the port."""
        position = None if after is None else SessionPosition(after)
        cut = session_lists.Cut(limit, position, SessionOrder(falls=newest))
        return await session_lists.page(self._transaction, wanted, cut)

    async def summaries(
        self,
        wanted: SessionFilter,
        *,
        limit: int,
        after: SessionPosition | None = None,
        order: SessionOrder = OLDEST_FIRST,
        kernels_max: int = 0,
    ) -> Sequence[SessionSummary]:
        """See the port."""
        cut = session_lists.Cut(limit, after, order)
        return await session_lists.summaries(self._transaction, wanted, cut, kernels_max=kernels_max)

    async def named(self, text: str, wanted: SessionFilter, *, kernels_max: int = 0) -> Sequence[SessionSummary]:
        """See the port."""
        return await session_lists.named(self._transaction, text, wanted, kernels_max=kernels_max)

    async def pending_count(self, user: str, *, most: int) -> int:
        """See the port."""
        return await session_lists.pending_count(self._transaction, user, most=most)

    async def counts(self, wanted: SessionFilter, by: SessionProperty, *, most: int) -> Mapping[str, int]:
        """See the port."""
        return await session_lists.counts(self._transaction, wanted, by, most=most)

    async def usage_history(
        self, wanted: SessionFilter, window: UsageWindow, by: UsageBy, of: UsageOf = UsageOf.SLOTS
    ) -> Sequence[UsageSeries]:
        """See the port."""
        return await kernel_lists.read_series(self._transaction, wanted, window, by, of=of)

    async def kernel_counts(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, KernelSummary]:
        """See the port."""
        return await kernel_lists.read_counts(self._transaction, session_ids) if session_ids else {}

    async def kernels(self, session_id: SessionId, *, limit: int, after: int = -1) -> Sequence[KernelRecord]:
        """See the port."""
        return await kernel_lists.read_page(self._transaction, session_id, limit=limit, after=after)

    async def move_kernels(self, moves: Sequence[KernelMove], change: Change) -> SessionRecord:
        """See the port."""
        if not moves:
            raise InvalidSpec(what="moves", field="kernels", value=moves, problem="names no kernel")
        session = await self._locked(moves[0].kernel.session_id)
        for move in moves:
            if not _is_current({session.session_id: session}, move):
                raise _stale(session, move)
        transitions = Transitions(self._transaction, change)
        _move(transitions, session, moves)
        await transitions.write()
        return await self.get(session.session_id)

    async def move_many(
        self, moves: Sequence[KernelMove], change: Change, *, known: Mapping[SessionId, SessionRecord] | None = None
    ) -> Sequence[SessionRecord]:
        """See the port."""
        return await self.move_in_steps([(change, moves)], known=known)

    async def move_in_steps(
        self,
        steps: Sequence[tuple[Change, Sequence[KernelMove]]],
        *,
        known: Mapping[SessionId, SessionRecord] | None = None,
        takers: Mapping[SessionId, Taker] | None = None,
    ) -> Sequence[SessionRecord]:
        """See the port."""
        every = [move for _, moves in steps for move in moves]
        ids, wanted = {one.kernel.session_id for one in every}, frozenset(one.kernel.kernel_id for one in every)
        if takers:
            known = {**taker_sessions(takers), **(known or {})}
        locked = sorted(ids.union(taker_sessions(takers or {})))
        states = await lock_sessions(self._transaction, locked, known=known, wanted=wanted) if every else {}
        stale = {one.kernel.session_id for one in every if not _is_current(states, one)}
        if takers:
            stale |= await with_changed_takers(self._transaction, states, takers)
        current = {one: state for one, state in states.items() if one in ids and one not in stale}
        if not current:
            return []
        transitions = Transitions(self._transaction, steps[0][0])
        for change, moves in steps:
            transitions.change = change
            by_session: dict[SessionId, list[KernelMove]] = {}
            for move in moves:
                by_session.setdefault(move.kernel.session_id, []).append(move)
            for session_id, some in by_session.items():
                if session_id in current:
                    _move(transitions, current[session_id], some)
        await transitions.write()
        return await transitions.records(current.values())

    async def set_goal(
        self, session_id: SessionId, goal: Goal, change: Change, *, known: SessionRecord | None = None
    ) -> SessionRecord:
        """See the port."""
        session = await self._locked(session_id, known)
        transitions = Transitions(self._transaction, change)
        await _set_goals(transitions, [session], goal)
        return (await transitions.records([session]))[0]

    async def set_goals(self, session_ids: Sequence[SessionId], goal: Goal, change: Change) -> Sequence[SessionRecord]:
        """See the port."""
        locked = await lock_sessions(self._transaction, session_ids) if session_ids else {}
        changed = await _set_goals(Transitions(self._transaction, change), locked.values(), goal)
        chosen = chosen_by_id(self._transaction.postgresql)
        return await read_records(self._transaction, chosen, bound_ids(self._transaction, changed)) if changed else []

    async def release(self, session_id: SessionId, gates: Collection[str], change: Change) -> SessionRecord:
        """See the port."""
        await self.release_many([session_id], gates, change)
        session = await self.get(session_id)
        if session.status is not SESSION.initial and not set(session.spec.gates).isdisjoint(gates):
            name = session.spec.name or session_id
            raise Conflict(
                f"session {name} is {session.status}; only a pending session can be released", hint="submit it again"
            )
        return session

    async def release_many(
        self, session_ids: Sequence[SessionId], gates: Collection[str], change: Change
    ) -> Sequence[SessionId]:
        """See the port."""
        opened = await stored_specs.open_gates(self._transaction, session_ids, gates)
        if opened:
            await self.note(opened, change)
        return opened

    async def save_checkpoints(self, at_ms: Mapping[SessionId, int]) -> Sequence[SessionId]:
        """See the port."""
        return await checkpoints.save(self._transaction, at_ms) if at_ms else []

    async def note(self, session_ids: Sequence[SessionId], change: Change) -> None:
        """See the port."""
        await history.note(self._transaction, SESSION, SESSIONS, ids=session_ids, change=change)

    async def history(
        self, session_id: SessionId, *, kernels: bool = False, limit: int | None = None, skip: int = 0
    ) -> Sequence[tuple[str, HistoryEntry]]:
        """See the port."""
        parts = [
            sa.select(SESSION_HISTORY, sa.literal(1).label("last")).where(SESSION_HISTORY.c.object_id == session_id)
        ]
        if kernels:
            of_session = sa.select(KERNELS.c.kernel_id).where(KERNELS.c.session_id == session_id)
            of_kernels = sa.select(KERNEL_HISTORY, sa.literal(0).label("last"))
            parts.append(of_kernels.where(KERNEL_HISTORY.c.object_id.in_(of_session)))
        all_of = sa.union_all(*parts).subquery("entries")
        # A session follows from its kernels, so that its entry is the last one of an instant.
        in_time = (all_of.c.at_ms, all_of.c.last, all_of.c.object_id) if kernels else ()
        order = (*in_time, all_of.c.sequence)
        statement = sa.select(all_of).order_by(*order).limit(limit).offset(skip if limit is not None else None)
        return [(row.object_id, history.entry_of(row)) for row in await self._transaction.fetch(statement)]

    async def users_of(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, str]:
        """See the port."""
        return await users_of(self._transaction, session_ids)

    async def waiting_users(self) -> Mapping[SessionId, str]:
        """See the port."""
        return await waiting_users(self._transaction)

    async def ended_holding(self) -> Sequence[SessionId]:
        """See the port."""
        return await ended_holding(self._transaction)

    async def changed(self, since: int | None) -> tuple[int, Mapping[SessionId, int]]:
        """See the port."""
        return await changed_sessions(self._transaction, since)

    async def _locked(self, session_id: SessionId, known: SessionRecord | None = None) -> SessionRow:
        """A locked session; of one that is `known`, the kernels that have not ended."""
        records = None if known is None else {session_id: known}
        wanted = [] if known is None else [one.kernel_id for one in known.kernels if one.status not in KERNEL.terminal]
        states = await lock_sessions(self._transaction, [session_id], known=records, wanted=frozenset(wanted))
        if session_id not in states:
            raise ObjectNotFound(what="session", name=session_id)
        return states[session_id]


def _move(transitions: Transitions, session: SessionRow, moves: Sequence[KernelMove]) -> None:
    """Apply kernel moves to a session at its current version, and derive its status."""
    for move in moves:
        kernel = session.kernels[move.kernel.kernel_id]
        if move.trigger in _RESERVED:
            legal = [trigger.value for trigger in KERNEL.legal_in(kernel.status) if trigger not in _RESERVED]
            raise IllegalTransition(machine=KERNEL.name, state=kernel.status, trigger=move.trigger, legal=legal)
        kernel.exit_code = move.exit_code if move.exit_code is not None else kernel.exit_code
        if move.failed_start_ms is not None and kernel.agent_id is not None:
            transitions.add_failed_start(session, kernel, move.failed_start_ms)
        kernel.follow_up = move.follow_up or kernel.follow_up
        transitions.move_kernel(session, kernel, move.trigger)
    transitions.settle(session, *_ended_by(moves))
    triggers = {move.trigger for move in moves}
    if KernelTrigger.NOTICED in triggers:
        give_notice(transitions, session)
    if KernelTrigger.SPARED in triggers:
        withdraw_eviction(session)


def _is_current(sessions: Mapping[str, SessionRow], move: KernelMove) -> bool:
    session = sessions.get(move.kernel.session_id)
    kernel = None if session is None else session.kernels.get(move.kernel.kernel_id)
    return kernel is not None and (kernel.status, kernel.version) == (move.kernel.status, move.kernel.version)


def _stale(session: SessionRow, move: KernelMove) -> StaleVersion:
    kernel = session.kernels.get(move.kernel.kernel_id)
    return StaleVersion(
        what="kernel",
        name=move.kernel.kernel_id,
        expected=f"{move.kernel.status} (version {move.kernel.version})",
        found="nothing" if kernel is None else f"{kernel.status} (version {kernel.version})",
    )


def _ended_by(moves: Sequence[KernelMove]) -> tuple[KernelTrigger, list[int | None]]:
    """The trigger and exit codes by which a session ends, independently of the order of moves."""
    endings = [move for move in moves if move.trigger in _ENDS]
    worst = min(endings, key=lambda move: move.trigger is KernelTrigger.EXITED, default=moves[-1])
    return worst.trigger, [move.exit_code for move in endings]


def _ended_by_user(session: SessionRow, goal: Goal, change: Change) -> bool:
    """Whether this stop counts as success; a forced stop never does."""
    codes = [kernel.exit_code for kernel in session.kernels.values()]
    return goal is Goal.STOP and ended_by_user(
        SessionType(session.row.session_type), session.status, codes, by=change.by
    )


async def _set_goals(transitions: Transitions, locked: Iterable[SessionRow], goal: Goal) -> list[SessionId]:
    """Raise the goal of locked sessions; returns those that changed."""
    changed = [one for one in locked if goal > one.goal and one.status not in SESSION.terminal]
    for session in changed:
        _stop(transitions, session, goal)
    if changed:
        await transitions.write()
    return [one.session_id for one in changed]


def _stop(transitions: Transitions, session: SessionRow, goal: Goal) -> None:
    """Withdraw pending kernels of a session, and request that the live ones stop."""
    session.goal = goal
    trigger, ended_by_user = KernelTrigger.STOP_REQUESTED, _ended_by_user(session, goal, transitions.change)
    for kernel in session.kernels.values():
        if kernel.status is KernelStatus.PENDING:
            transitions.move_kernel(session, kernel, KernelTrigger.WITHDRAWN)
        elif kernel.status in ALIVE:
            transitions.move_kernel(session, kernel, trigger)
    _settle_stop(transitions, session, trigger, ended_by_user=ended_by_user)


def _settle_stop(
    transitions: Transitions, session: SessionRow, trigger: KernelTrigger, *, ended_by_user: bool = False
) -> None:
    """Settle a forced stop through TERMINATING, so that the history has every step."""
    if session.goal is Goal.FORCE and session.status not in SESSION.terminal:
        session.goal = Goal.STOP
        transitions.settle(session, trigger)
        session.goal = Goal.FORCE
    transitions.settle(session, trigger, ended_by_user=ended_by_user)
