"""Status transitions of sessions and kernels, decided on locked rows.

Every status change goes through here; the repository, the ledger and the allocator
differ only in the moves they request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.sessions.move_events import MoveEvents
from sokovan.adapters.sql.repositories.sessions.session_rows import (
    NO_PORTS,
    OCCASIONAL,
    KernelRow,
    SessionRow,
    chosen_by_id,
    domains_text,
    failed_starts_text,
    read_records,
    record_of,
)
from sokovan.adapters.sql.rows import FLAG, TEXT, WHOLE, OccasionalColumns, Rows, changed_places, common_columns
from sokovan.adapters.sql.schema.eviction_codec import Checkpoint, evictions_text
from sokovan.adapters.sql.schema.tables import KERNELS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids
from sokovan.domain.errors import StaleVersion
from sokovan.domain.events import SessionMoved
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import KERNEL, FollowUp, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, SessionStatus, SessionTrigger, following_trigger
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import (
    COMPLETED,
    KERNEL_FAILED,
    Change,
    FailedStart,
    SessionRecord,
    SessionResult,
    result_of,
)

# The cause of the end of an evicted session that had nothing left to do; one that ended before its notice has its own.
DONE = "done"
# A gang may fail on many agents at once.
_FAILED_STARTS_MAX = 32
_FAILED_DETAIL_MAX = 300
# A retried or evicted session is TERMINATING without a cause, until its kernels wait or run again or it is stopped.
_RETRIES = frozenset(
    {
        KernelTrigger.RETRY_REQUESTED,
        KernelTrigger.EVICTED,
        KernelTrigger.NOTICED,
        KernelTrigger.SPARED,
        KernelTrigger.REQUEUED,
        KernelTrigger.OVERDUE,
    }
)
_ENDING = frozenset({SessionStatus.TERMINATING, SessionStatus.TERMINATED, SessionStatus.CANCELLED})
_KERNEL_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {"status": TEXT, "history_sequence": WHOLE, "since_ms": WHOLE}
# In the order of `OCCASIONAL`, and written only if a kernel of the transaction changes them.
_OCCASIONAL_OF_KERNELS: dict[str, sa.types.TypeEngine[Any]] = {
    "agent_id": TEXT, "incarnation": WHOLE, "sent": FLAG, "rank": WHOLE, "exit_code": WHOLE, "devices": TEXT,
    "host_ports": TEXT, "attempt": WHOLE, "follow_up": TEXT,
}  # fmt: skip
_SESSION_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "status": TEXT, "history_sequence": WHOLE, "goal": WHOLE, "since_ms": WHOLE,
}  # fmt: skip
# Written only if a session of the transaction changes them: SQLite writes the indexes of every column that it is given.
_OCCASIONAL_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "scheduled_ms": WHOLE, "ended_ms": WHOLE, "cause": TEXT, "cause_detail": TEXT, "result": TEXT, "hypernode": TEXT,
    "failed_starts": TEXT, "group_domains": TEXT, "evictions": TEXT, "checkpoint_ms": WHOLE,
}  # fmt: skip
_OCCASIONAL_NAMES = tuple(_OCCASIONAL_OF_KERNELS)
_OCCASIONAL_FROM = 2 + len(_SESSION_COLUMNS)  # after the id and the expected version
_OCCASIONAL = OccasionalColumns(_OCCASIONAL_COLUMNS, first=_OCCASIONAL_FROM)


@dataclass(slots=True)
class Ending:
    """Why a session ends: the first cause, which is never overwritten."""

    cause: str
    detail: str
    result: SessionResult


class HistoryPart(NamedTuple):
    """History rows with the same reason, in the order of the moves."""

    change: Change
    kernels: list[history.HistoryRow]
    sessions: list[history.HistoryRow]


@dataclass(slots=True)
class Transitions:
    """Collects the moves of one transaction in memory, then writes each row once.

    `change` is the reason of the moves that follow.
    """

    transaction: Transaction
    change: Change
    _kernels: dict[str, tuple[KernelRow, int]] = field(default_factory=dict)
    _sessions: dict[str, tuple[SessionRow, int]] = field(default_factory=dict)
    _history: list[HistoryPart] = field(default_factory=list)
    _endings: dict[str, Ending] = field(default_factory=dict)
    _hypernodes: dict[str, str] = field(default_factory=dict)
    _group_domains: dict[str, str] = field(default_factory=dict)
    _events: MoveEvents = field(init=False)
    _written: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._events = MoveEvents(self.transaction.now_ms)

    def move_kernel(self, session: SessionRow, kernel: KernelRow, trigger: KernelTrigger) -> None:
        """Move one kernel. Raises IllegalTransition, ForbiddenCause."""
        before, after = kernel.status, KERNEL.after(kernel.status, trigger, by=self.change.by)
        self.touch(session)
        kernel.status = after
        kernel.history_sequence += 1
        kernel.since_ms = self.transaction.now_ms
        kernel.sent = kernel.sent or after is KernelStatus.CREATING
        self._touch_kernel(kernel)
        self._history_part().kernels.append(
            history.HistoryRow(kernel.kernel_id, kernel.history_sequence, before, after, trigger)
        )
        self._events.add_kernel(session.session_id, kernel.kernel_id, before=before, after=after, trigger=trigger)

    def requeue_kernel(self, session: SessionRow, kernel: KernelRow) -> None:
        """Let the next attempt of a kernel wait; its slots are freed with a proof."""
        self.move_kernel(session, kernel, KernelTrigger.REQUEUED)
        now = self.transaction.now_ms
        session.failed_starts = [
            replace(one, avoid_until_ms=now + one.avoid_ms) if one.attempt == kernel.attempt else one
            for one in session.failed_starts
        ]
        kernel.attempt += 1
        # It keeps its rank if it is retried alone: the others were started with it.
        kernel.agent_id = kernel.incarnation = kernel.exit_code = kernel.follow_up = None
        kernel.sent, kernel.devices_text, kernel.host_ports_text = False, "{}", NO_PORTS

    def clear_ranks(self, session: SessionRow) -> None:
        """Let the kernels of a session that is retried whole be ranked anew."""
        for kernel in session.kernels.values():
            if kernel.status is KernelStatus.PENDING and kernel.rank is not None:
                kernel.rank = None
                self._touch_kernel(kernel)

    def follow_up_kernel(self, session: SessionRow, kernel: KernelRow) -> None:
        """Let a kernel that ended alone wait again, or cancel it if it is given up."""
        given_up = kernel.follow_up is FollowUp.CANCEL
        self.requeue_kernel(session, kernel)
        if not given_up:
            return
        self.move_kernel(session, kernel, KernelTrigger.WITHDRAWN)
        kernel.attempt -= 1
        kernel.rank = None  # the next kernel that is placed takes it

    def settle_receipts(self, session: SessionRow) -> None:
        """Complete the receipts of evictions whose kernels are gone."""
        if not session.evictions or any(status is KernelStatus.TERMINATING for status, _ in session.statuses()):
            return
        now, saved = self.transaction.now_ms, session.checkpoint
        session.evictions = [one.ended(now, saved) if one.ended_ms is None else one for one in session.evictions]

    def add_failed_start(self, session: SessionRow, kernel: KernelRow, avoid_ms: int) -> None:
        """Record that a kernel's agent could not start it; once per attempt and agent."""
        agent_id, now = kernel.agent_id or AgentId(""), self.transaction.now_ms
        known = [(one.attempt, one.agent_id) for one in session.failed_starts]
        if (kernel.attempt, agent_id) not in known:
            failed = FailedStart(
                attempt=kernel.attempt,
                agent_id=agent_id,
                code=self.change.code,
                detail=self.change.detail[:_FAILED_DETAIL_MAX],
                at_ms=now,
                avoid_ms=avoid_ms,
                avoid_until_ms=now + avoid_ms,
            )
            session.failed_starts = [*session.failed_starts, failed][-_FAILED_STARTS_MAX:]

    def _history_part(self) -> HistoryPart:
        last = self._history[-1] if self._history else None
        # Most of many moves in a row have the same reason.
        if last is None or (last.change is not self.change and last.change != self.change):
            last = HistoryPart(self.change, [], [])
            self._history.append(last)
        return last

    def _touch_kernel(self, kernel: KernelRow) -> None:
        if kernel.kernel_id not in self._kernels:
            self._kernels[kernel.kernel_id] = (kernel, kernel.version)
            kernel.version += 1

    def touch(self, session: SessionRow) -> None:
        """Write the session with a new version, even if its status does not change."""
        if session.session_id not in self._sessions:
            self._sessions[session.session_id] = (session, session.version)
            session.version += 1

    def set_hypernode(self, session: SessionRow, hypernode: str) -> None:
        """Record the HyperNode that the session is placed in."""
        self._hypernodes[session.session_id] = hypernode

    def set_group_domains(self, session: SessionRow, domains: Mapping[str, str]) -> None:
        """Record the HyperNodes that the kernel groups of the session are placed in."""
        self._group_domains[session.session_id] = domains_text(domains)

    def settle(
        self,
        session: SessionRow,
        trigger: KernelTrigger,
        exit_codes: Sequence[int | None] = (),
        *,
        ended_by_user: bool = False,
    ) -> None:
        """Derive the session's status after a move of its kernels by `trigger`.

        `ended_by_user`: being stopped counts as success, since nothing is left to do.
        """
        self.touch(session)
        before, after = session.status, session.derived()
        ends = after in _ENDING and trigger not in _RETRIES
        first_cause = ends and session.row.cause is None and session.session_id not in self._endings
        if after is before and not first_cause:
            return
        session_trigger = (
            SessionTrigger.FORCED if _forced(session, after) else following_trigger(before, after, trigger)
        )
        if first_cause:
            cause = self.change.code or session_trigger.value
            result = SessionResult.SUCCESS if ended_by_user else result_of(trigger, exit_codes)
            self._endings[session.session_id] = Ending(cause, self.change.detail, result)
        session.status = after
        session.since_ms = self.transaction.now_ms
        session.history_sequence += 1
        self._history_part().sessions.append(
            history.HistoryRow(session.session_id, session.history_sequence, before, after, session_trigger)
        )
        self._events.add(
            SessionMoved(
                at_ms=self.transaction.now_ms,
                session_id=session.session_id,
                before=before,
                after=after,
                trigger=session_trigger,
            )
        )

    async def write(self) -> None:
        """Write histories first, then the rows that reference them. Raises StaleVersion."""
        for part in self._history:
            await history.append(self.transaction, KERNEL.name, part.kernels, part.change)
            await history.append(self.transaction, SESSION.name, part.sessions, part.change)
        await self._write_kernels()
        await self._write_sessions()
        # Added after the writes, so that a failed block publishes no events.
        self.transaction.events.extend(self._events.events())

    async def _write_kernels(self) -> None:
        if not self._kernels:
            return
        postgresql, kernels = self.transaction.postgresql, self._kernels.values()
        before, after = [one.stored for one, _ in kernels], [OCCASIONAL(one) for one, _ in kernels]
        places = changed_places(before, after)
        chosen = [tuple([values[place] for place in places]) for values in after]
        values = [
            (one.kernel_id, version, one.status, one.history_sequence, one.since_ms, *more)
            for (one, version), more in zip(kernels, chosen, strict=True)
        ]
        occasional = tuple([_OCCASIONAL_NAMES[place] for place in places])
        common = common_columns(values, ("id", "expected", *_KERNEL_COLUMNS, *occasional), postgresql=postgresql)
        statement, rows = _update_kernels(postgresql, occasional, common)
        _all_written("kernel", values, await self.transaction.execute(statement, rows.bind(values)))

    async def _write_sessions(self) -> None:
        if not self._sessions:
            return
        postgresql = self.transaction.postgresql
        self._written = {key: self._session_values(*changed) for key, changed in self._sessions.items()}
        occasional = _OCCASIONAL.changed((self._sessions[key][0].row, values) for key, values in self._written.items())
        values = _OCCASIONAL.chosen(self._written.values(), occasional)
        names = ("id", "expected", *_SESSION_COLUMNS, *occasional)
        common = common_columns(values, names, postgresql=postgresql)
        statement, rows = _update_sessions(postgresql, occasional, common)
        bound = {**rows.bind(values), "the_stamp": self.transaction.stamp}
        _all_written("session", values, await self.transaction.execute(statement, bound))

    async def records(self, sessions: Collection[SessionRow]) -> list[SessionRecord]:
        """Sessions as they are now, by id; reads those that were locked without a record."""
        known = {one.session_id: self._changed(one, one.record) for one in sessions if one.record is not None}
        unread = [one.session_id for one in sessions if one.record is None]
        chosen = chosen_by_id(self.transaction.postgresql)
        read = await read_records(self.transaction, chosen, bound_ids(self.transaction, unread)) if unread else []
        return sorted([*known.values(), *read], key=lambda record: record.session_id)

    def _changed(self, session: SessionRow, before: SessionRecord) -> SessionRecord:
        if session.session_id not in self._sessions:
            return before
        changed = {one.kernel_id: record_of(session.session_id, one) for one in session.kernels.values()}
        values = self._written.get(session.session_id) or self._session_values(session, session.version)
        scheduled_ms, ended_ms, cause, detail, result, hypernode, _, domains, _, saved = values[_OCCASIONAL_FROM:]
        is_placed_alike = domains == session.row.group_domains
        return replace(
            before,
            status=session.status,
            version=session.version,
            goal=session.goal,
            kernels=tuple([changed.get(one.kernel_id, one) for one in before.kernels]),
            scheduled_ms=scheduled_ms,
            ended_ms=ended_ms,
            cause=cause,
            cause_detail=detail,
            result=None if result is None else SessionResult(result),
            hypernode=hypernode,
            since_ms=session.since_ms,
            failed_starts=tuple(session.failed_starts),
            evictions=tuple(session.evictions),
            checkpoint_ms=saved,
            group_domains=before.group_domains if is_placed_alike else msgspec.json.decode(domains),
            sealed=before.sealed if ended_ms is None else "",
        )

    def _session_values(self, session: SessionRow, version: int) -> tuple[Any, ...]:
        row, now = session.row, self.transaction.now_ms
        ending = self._endings.get(session.session_id)
        scheduled = None if session.status is SessionStatus.PENDING else row.scheduled_ms
        if scheduled is None and session.status is SessionStatus.SCHEDULED:
            scheduled = now
        ended = now if session.status in SESSION.terminal and row.ended_ms is None else row.ended_ms
        return (
            session.session_id, version, session.status, session.history_sequence, int(session.goal),
            session.since_ms, scheduled, ended,
            row.cause if ending is None else ending.cause,
            row.cause_detail if ending is None else ending.detail,
            row.result if ending is None else ending.result.value,
            self._hypernodes.get(session.session_id, row.hypernode),
            failed_starts_text(session.failed_starts),
            self._group_domains.get(session.session_id, row.group_domains), evictions_text(session.evictions),
            None if session.checkpoint is None else session.checkpoint.at_ms,
        )  # fmt: skip


def report_checkpoint(transitions: Transitions, session: SessionRow, kernel: KernelRow, checkpoint: Checkpoint) -> None:
    """Take over the last checkpoint of a kernel that is gone.

    The first kernel says whether the session is done: then an evicted one ends well.
    """
    known, now = session.checkpoint, transitions.transaction.now_ms
    if known is None or checkpoint.at_ms >= known.at_ms:
        session.checkpoint = replace(checkpoint, at_ms=min(checkpoint.at_ms, now))
    evicted = session.is_retried and any(one.ended_ms is None for one in session.evictions)
    if checkpoint.done and kernel.index == 0 and evicted:
        detail = "it was evicted, and had reported that its work is done"
        change, transitions.change = transitions.change, Change(transitions.change.who, Cause.COORDINATOR, DONE, detail)
        transitions.settle(session, KernelTrigger.STOP_REQUESTED, ended_by_user=True)
        transitions.change, session.is_done = change, True


def keep_own_exits(session: SessionRow, exits: Mapping[KernelId, int]) -> None:
    """Keep the codes of kernels that ended before the notice; others may follow."""
    own = {str(kernel): code for kernel, code in exits.items() if kernel in session.kernels}
    session.evictions = [
        replace(one, exits=tuple(sorted({**dict(one.exits), **own}.items()))) if one.is_open else one
        for one in session.evictions
    ]


def end_by_itself(transitions: Transitions, session: SessionRow, names: Sequence[str]) -> None:
    """End an evicted session by the exits of kernels that ended before its notice."""
    known = {name: code for one in session.evictions if one.is_open for name, code in one.exits}
    if not known or session.row.cause is not None:
        return
    codes = {name: known[name] for name in names}
    change = transitions.change
    cause = KERNEL_FAILED if any(codes.values()) else COMPLETED
    detail = "it ended by itself before the notice of its eviction was given"
    transitions.change = Change(change.who, Cause.COORDINATOR, cause, detail)
    for name, code in codes.items():
        kernel = session.kernels[name]
        if kernel.status is KernelStatus.PENDING:  # it was freed before, and need not run again
            transitions.move_kernel(session, kernel, KernelTrigger.WITHDRAWN)
        else:
            kernel.follow_up, kernel.exit_code = None, code
    transitions.settle(session, KernelTrigger.EXITED, list(codes.values()))
    transitions.change, session.is_done = change, True
    session.evictions = [replace(one, completed=one.completed or one.ended_ms is None) for one in session.evictions]


def give_notice(transitions: Transitions, session: SessionRow) -> None:
    """Note in the open receipts that the kernels are about to get their notice."""
    now = transitions.transaction.now_ms
    session.evictions = [replace(one, noticed_ms=now) if one.is_open else one for one in session.evictions]


def withdraw_eviction(session: SessionRow) -> None:
    """Remove the receipt of an eviction that did not happen.

    The session runs as before.
    """
    receipt = session.evictions.pop()
    if receipt.whole and receipt.ran_since_ms is not None:
        session.since_ms = receipt.ran_since_ms
    for kernel in session.kernels.values():
        if kernel.status is KernelStatus.RUNNING:
            kernel.follow_up = None


def _forced(session: SessionRow, after: SessionStatus) -> bool:
    """Whether the session ends before its kernels do."""
    return after is SessionStatus.TERMINATED and session.holds_slots


def _all_written(what: str, values: Sequence[tuple[Any, ...]], written: int) -> None:
    """Check the row count. The rows are locked, so a mismatch must abort the transaction."""
    if written != len(values):
        raise StaleVersion(what=what, name=values[0][0], expected=f"{len(values)} rows", found=f"{written} rows")


@cache
def _update_kernels(
    postgresql: bool,  # noqa: FBT001  # a key of the cache
    occasional: tuple[str, ...],
    common: frozenset[str],
) -> tuple[sa.Update, Rows]:
    columns = {**_KERNEL_COLUMNS, **{name: _OCCASIONAL_OF_KERNELS[name] for name in occasional}}
    rows = Rows("moved", {"id": TEXT, "expected": WHOLE, **columns}, postgresql=postgresql, common=common)
    statement = (
        sa.update(KERNELS)
        .values({**{name: rows.c[name] for name in columns}, "version": KERNELS.c.version + 1})
        .where(KERNELS.c.kernel_id == rows.c.id, KERNELS.c.version == rows.c.expected)
    )
    return statement, rows


@cache
def _update_sessions(
    postgresql: bool,  # noqa: FBT001  # a key of the cache
    occasional: tuple[str, ...],
    common: frozenset[str],
) -> tuple[sa.Update, Rows]:
    columns = {**_SESSION_COLUMNS, **{name: _OCCASIONAL_COLUMNS[name] for name in occasional}}
    rows = Rows("moved", {"id": TEXT, "expected": WHOLE, **columns}, postgresql=postgresql, common=common)
    written = {name: rows.c[name] for name in columns}
    if "ended_ms" in written:  # secrets are removed with the end of their session
        written["sealed"] = sa.case((rows.c.ended_ms.is_(None), SESSIONS.c.sealed), else_="")
    statement = (
        sa.update(SESSIONS)
        .values({**written, "version": SESSIONS.c.version + 1, "stamp": sa.bindparam("the_stamp", type_=WHOLE)})
        .where(SESSIONS.c.session_id == rows.c.id, SESSIONS.c.version == rows.c.expected)
    )
    return statement, rows
