"""Session and kernel rows: reading, locking, and conversion to records."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.schema.eviction_codec import Checkpoint, EvictionReceipt, evictions_of
from sokovan.adapters.sql.schema.spec_codec import SMALL_TEXT, spec_of
from sokovan.adapters.sql.schema.tables import KERNELS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS, FollowUp, KernelStatus
from sokovan.domain.lifecycle.session import (
    SESSION,
    Goal,
    SessionIntent,
    SessionStatus,
    deciding_counts,
    deciding_statuses,
    session_status,
)
from sokovan.domain.records import (
    FIRST_VERSION,
    FailedStart,
    KernelRecord,
    SessionRecord,
    SessionResult,
    is_retried,
    new_kernels,
)
from sokovan.domain.session import SessionSpec
from sokovan.domain.slots import ResourceSlot

# Renamed, because a row has a method `index`.
KERNEL_COLUMNS = [column.label("kernel_index") if column is KERNELS.c.index else column for column in KERNELS.columns]
# The columns that writers need; without the spec, which is large.
_STATE_COLUMNS = [
    SESSIONS.c[name]
    for name in (
        "session_id", "status", "version", "history_sequence", "goal", "session_type", "scaling_group", "queue",
        "user", "group", "domain", "access_key", "required", "scheduled_ms", "ended_ms", "cause", "cause_detail",
        "result", "hypernode", "since_ms", "failed_starts", "group_domains", "evictions", "checkpoint_ms",
        "loan",
    )
]  # fmt: skip


NO_PORTS = "{}"
# Faster than calling the enumeration, for each of the kernels of large sessions.
_STATUSES = {status.value: status for status in KernelStatus}
_STATUS, _FOLLOW_UP = attrgetter("status"), attrgetter("follow_up")
_ENDS = SESSION.terminal | {SessionStatus.TERMINATING}
# Above every index of a kernel.
INDEX_END = 2**31 - 1
# Rows that are converted before other tasks run, in a few milliseconds.
_CHUNK = 256


# Attributes of a kernel's row that most moves leave as they are.
OCCASIONAL = attrgetter(
    "agent_id", "incarnation", "sent", "rank", "exit_code", "devices_text", "host_ports_text", "attempt", "follow_up"
)


@dataclass(slots=True)
class KernelRow:
    """Mutable state of a kernel within a transaction; its session is locked.

    What only the allocator needs (`architecture`, `require_text`, `ports_text`) is empty if
    the kernel was taken from a record. `stored` are the values that it began with, of `OCCASIONAL`.
    """

    kernel_id: KernelId
    index: int
    status: KernelStatus
    version: int
    history_sequence: int
    since_ms: int
    attempt: int
    agent_id: AgentId | None
    incarnation: int | None
    sent: bool
    exit_code: int | None
    slots_text: str
    devices_text: str
    architecture: str = ""
    require_text: str = "{}"
    rank: int | None = None
    follow_up: FollowUp | None = None
    ports_text: str = NO_PORTS
    host_ports_text: str = NO_PORTS
    stored: tuple[Any, ...] = ()

    @property
    def slots(self) -> ResourceSlot:
        """The requested slots."""
        return slots_of(self.slots_text)

    @property
    def require(self) -> Mapping[str, str]:
        """The labels that the agent must have."""
        return {} if self.require_text == "{}" else msgspec.json.decode(self.require_text)


@dataclass(slots=True)
class SessionRow:
    """Mutable state of a locked session within a transaction, with its kernels.

    With `record`, which was read before and is current, `kernels` are only those that the
    transaction changes, and `others` counts the rest by status, and whether they end alone.
    `checkpoint` is the last one that it reported; with `is_done` it does not wait again.
    """

    row: Row[Any]
    session_id: SessionId
    status: SessionStatus
    version: int
    history_sequence: int
    since_ms: int
    goal: Goal
    kernels: dict[str, KernelRow]
    failed_starts: list[FailedStart] = field(default_factory=list)
    evictions: list[EvictionReceipt] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    is_done: bool = False
    record: SessionRecord | None = None
    others: Counter[tuple[KernelStatus, bool]] = field(default_factory=Counter)

    def take(self, record: SessionRecord, wanted: Collection[str] | None) -> None:
        """Use a record of the current version instead of reading the kernels.

        Without `wanted`, all kernels are given, with what the allocator needs.
        """
        self.record = record
        if wanted is None:
            self.kernels = {one.kernel_id: _whole_row_of(one, record.spec) for one in record.kernels}
            return
        if self.is_retried:  # all of its kernels are ranked anew
            wanted = frozenset(one.kernel_id for one in record.kernels)
        self.kernels = {one.kernel_id: _row_of(one) for one in record.kernels if one.kernel_id in wanted}
        if len(self.kernels) < len(record.kernels):
            self.others = _tally(record.kernels)
            self.others.subtract(_states_of(self.kernels.values()))
            self.others = +self.others  # without those that are no others

    @property
    def is_retried(self) -> bool:
        """Whether its kernels wait again once they are gone."""
        return not self.is_done and is_retried(self.status, self.goal, self.row.cause)

    def goes_on_without(self, kernel: KernelRow) -> bool:
        """Whether a kernel that is gone has ended alone."""
        return kernel.follow_up is not None and self.status not in _ENDS

    @property
    def holds_slots(self) -> bool:
        """Whether a kernel holds slots."""
        return any(status in HOLDS_SLOTS for status, _ in self.statuses())

    def statuses(self) -> Iterator[tuple[KernelStatus, bool]]:
        """The statuses that kernels have now, and whether such a kernel ends alone."""
        yield from _states_of(self.kernels.values())
        yield from self.others

    def derived(self) -> SessionStatus:
        """The status that follows from the goal and the current kernel statuses."""
        if not self.others and len(self.kernels) <= _SMALL:
            return _derived_cached(self.goal, self.row.required, deciding_statuses(self.statuses()))
        states = Counter(_states_of(self.kernels.values()))
        states.update(self.others)
        return _derived(self.goal, self.row.required, deciding_counts(states))


def _states_of(kernels: Iterable[KernelRow]) -> Iterator[tuple[KernelStatus, bool]]:
    return ((one.status, one.follow_up is not None) for one in kernels)


def _tally(kernels: Sequence[KernelRecord]) -> Counter[tuple[KernelStatus, bool]]:
    """How many kernels have which status, and end alone: each slice of a large session counts all of it."""
    if any(map(_FOLLOW_UP, kernels)):
        return Counter((one.status, one.follow_up is not None) for one in kernels)
    return Counter({(status, False): count for status, count in Counter(map(_STATUS, kernels)).items()})


def _derived(goal: Goal, required: int, statuses: Iterable[KernelStatus]) -> SessionStatus:
    return session_status(SessionIntent(goal=goal, required=required), statuses)


# Most sessions are small, and small ones repeat the same statuses.
_SMALL = 8
_derived_cached = lru_cache(maxsize=10_000)(_derived)


async def lock_sessions(
    transaction: Transaction,
    ids: Sequence[str],
    *,
    known: Mapping[SessionId, SessionRecord] | None = None,
    wanted: Collection[str] | None = (),
) -> dict[str, SessionRow]:
    """Lock the sessions that exist, in the order of their ids.

    Sessions in `known` that have not changed since are not read again: of those only the
    `wanted` kernels are given, or all if it is None. A change of a kernel's status is one of
    its session.
    """
    lock, kernels = _lock_statements(transaction.postgresql)
    states = {row.session_id: _state(row) for row in await transaction.fetch(lock, bound_ids(transaction, ids))}
    unread: list[str] = []
    for state in states.values():
        record = None if known is None else known.get(state.session_id)
        if record is not None and record.version == state.version:
            state.take(record, wanted)
        else:
            unread.append(state.session_id)
    for row in await transaction.fetch(kernels, bound_ids(transaction, unread)) if unread else ():
        states[row.session_id].kernels[row.kernel_id] = _kernel_state(row)
    for kernel in [kernel for state in states.values() for kernel in state.kernels.values()]:
        kernel.stored = OCCASIONAL(kernel)
    return states


# As the index of kernels by agent has it, word by word: SQLite does not derive it from another condition, and would
# read all kernels that ever were.
ON_AGENT = sa.text("kernels.status NOT IN ('pending', 'cancelled', 'terminated')")
# Built once: building a statement costs more than running it.
BY_ID = sa.select(SESSIONS).where(SESSIONS.c.session_id == sa.bindparam("the_session_id"))


@cache
def chosen_by_id(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects sessions by id, in the order of their ids."""
    ids = sa.select(ids_table(postgresql).c.id)
    return sa.select(SESSIONS).where(SESSIONS.c.session_id.in_(ids)).order_by(SESSIONS.c.session_id)


async def read_records(
    transaction: Transaction,
    statement: sa.Select[Any],
    parameters: Mapping[str, Any] | None = None,
) -> list[SessionRecord]:
    """The records of the sessions that a statement selects, in its order."""
    rows = await transaction.fetch(statement, parameters)
    found: dict[str, list[KernelRecord]] = {row.session_id: [] for row in rows}
    # The kernels of a session that was never written are as they were inserted.
    written = [row.session_id for row in rows if row.version > FIRST_VERSION]
    bound = {**bound_ids(transaction, written), "kernels_max": INDEX_END}
    kernels = await transaction.fetch(kernels_of(transaction.postgresql), bound) if written else ()
    for start in range(0, len(kernels), _CHUNK):
        for row in kernels[start : start + _CHUNK]:
            found[row.session_id].append(kernel_record(row))
        await _yield_after(start + _CHUNK < len(kernels))
    records: list[SessionRecord] = []
    for row in rows:
        spec = spec_of(row.body)
        if row.version == FIRST_VERSION:
            found[row.session_id] += new_kernels(spec, row.submitted_ms)
        records.append(_session_record(row, spec, found[row.session_id]))
        await _yield_after(len(row.body) > SMALL_TEXT)
    return records


async def _yield_after(much: bool) -> None:  # noqa: FBT001  # a condition
    """Let other tasks of the event loop run between the chunks of a long read."""
    if much:
        await asyncio.sleep(0)  # yields, and does not wait


@cache
def kernels_of(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the first `kernels_max` kernels of sessions, in their order."""
    wanted = sa.select(ids_table(postgresql).c.id)
    first = KERNELS.c.index < sa.bindparam("kernels_max", type_=sa.BigInteger())
    return sa.select(*KERNEL_COLUMNS).where(KERNELS.c.session_id.in_(wanted), first).order_by(KERNELS.c.index)


async def read_kernels(transaction: Transaction, *where: sa.ColumnElement[bool] | sa.TextClause) -> list[KernelRecord]:
    """The kernels that match all conditions, ordered by id."""
    statement = sa.select(*KERNEL_COLUMNS).where(*where).order_by(KERNELS.c.kernel_id)
    return [kernel_record(row) for row in await transaction.fetch(statement)]


def kernel_record(row: Row[Any]) -> KernelRecord:
    """The record of a kernel's row."""
    return record_of(SessionId(row.session_id), _kernel_state(row))


def record_of(session_id: SessionId, state: KernelRow) -> KernelRecord:
    """The record of a kernel that the transaction changed."""
    return KernelRecord(
        kernel_id=state.kernel_id,
        session_id=session_id,
        index=state.index,
        status=state.status,
        version=state.version,
        slots=state.slots,
        attempt=state.attempt,
        agent_id=state.agent_id,
        incarnation=state.incarnation,
        devices=devices_of(state.devices_text),
        exit_code=state.exit_code,
        sent=state.sent,
        rank=state.rank,
        follow_up=state.follow_up,
        host_ports=ports_of(state.host_ports_text),
        since_ms=state.since_ms,
        history_sequence=state.history_sequence,
    )


def _row_of(record: KernelRecord) -> KernelRow:
    return KernelRow(
        kernel_id=record.kernel_id,
        index=record.index,
        status=record.status,
        version=record.version,
        history_sequence=record.history_sequence,
        since_ms=record.since_ms,
        attempt=record.attempt,
        agent_id=record.agent_id,
        incarnation=record.incarnation,
        sent=record.sent,
        exit_code=record.exit_code,
        slots_text=slots_text(record.slots),
        devices_text=msgspec.json.encode(record.devices).decode() if record.devices else "{}",
        rank=record.rank,
        follow_up=record.follow_up,
        host_ports_text=ports_text(record.host_ports),
    )


def _whole_row_of(record: KernelRecord, spec: SessionSpec) -> KernelRow:
    """The row of a kernel with what only the allocator needs, which never changes."""
    row, kernel = _row_of(record), spec.kernels[record.index]
    row.architecture, row.require_text = kernel.architecture, require_text(kernel.require)
    row.ports_text = requested_ports_text(spec, record.index)
    return row


def require_text(require: Mapping[str, str]) -> str:
    """The stored form of the labels that the agent of a kernel must have."""
    return msgspec.json.encode(dict(require)).decode() if require else "{}"


def requested_ports_text(spec: SessionSpec, index: int) -> str:
    """The stored form of the ports that a kernel requests; the first kernel serves."""
    return ports_text({} if index else {one.name: one.port for one in spec.ports})


@lru_cache(maxsize=100_000)
def slots_text(slots: ResourceSlot) -> str:
    """The stored form of slots; equal slots give equal texts."""
    return msgspec.json.encode(dict(slots)).decode()


@lru_cache(maxsize=100_000)
def slots_of(text: str) -> ResourceSlot:
    """Decode stored slots; cached, because a cluster has few distinct values."""
    return ResourceSlot(msgspec.json.decode(text))


def domains_text(domains: Mapping[str, str]) -> str:
    """The HyperNodes of kernel groups, as they are stored."""
    return msgspec.json.encode(dict(domains), order="sorted").decode()


def failed_starts_text(failed: Sequence[FailedStart]) -> str:
    """The stored form of failed attempts to start a session."""
    return msgspec.json.encode(failed).decode() if failed else "[]"


def failed_starts_of(text: str) -> tuple[FailedStart, ...]:
    """Decode the failed attempts to start a session."""
    return () if text == "[]" else _FAILED_STARTS.decode(text)


_FAILED_STARTS = msgspec.json.Decoder(tuple[FailedStart, ...])


def devices_text(picked: Mapping[str, tuple[tuple[str, int], ...]]) -> str:
    """The stored form of a kernel's devices, by slot."""
    return _devices_text(tuple(picked.items()))


@lru_cache(maxsize=10_000)
def _devices_text(picked: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]) -> str:
    return msgspec.json.encode({slot: [device for device, _ in choice] for slot, choice in picked}).decode()


def devices_of(text: str) -> Mapping[str, tuple[str, ...]]:
    """Decode stored devices, by slot."""
    if text == "{}":
        return {}
    return {slot: tuple(ids) for slot, ids in msgspec.json.decode(text).items()}


def ports_text(ports: Mapping[str, int]) -> str:
    """The stored form of ports, by name."""
    return msgspec.json.encode(dict(ports)).decode() if ports else NO_PORTS


def ports_of(text: str) -> Mapping[str, int]:
    """Decode stored ports, by name."""
    if text == NO_PORTS:
        return {}
    found: Mapping[str, int] = msgspec.json.decode(text)
    return found


@cache
def _lock_statements(postgresql: bool) -> tuple[sa.Select[Any], sa.Select[Any]]:  # noqa: FBT001  # a key of the cache
    wanted = sa.select(ids_table(postgresql).c.id)
    lock = (
        sa.select(*_STATE_COLUMNS)
        .where(SESSIONS.c.session_id.in_(wanted))
        .order_by(SESSIONS.c.session_id)
        .with_for_update()
    )
    kernels = (
        sa.select(*KERNEL_COLUMNS)
        .where(KERNELS.c.session_id.in_(wanted))
        .order_by(KERNELS.c.session_id, KERNELS.c.index)
    )
    return lock, kernels


def _state(row: Row[Any]) -> SessionRow:
    return SessionRow(
        row=row,
        session_id=SessionId(row.session_id),
        status=SessionStatus(row.status),
        version=row.version,
        history_sequence=row.history_sequence,
        since_ms=row.since_ms,
        goal=Goal(row.goal),
        kernels={},
        failed_starts=list(failed_starts_of(row.failed_starts)),
        evictions=list(evictions_of(row.evictions)),
        checkpoint=None if row.checkpoint_ms is None else Checkpoint(row.checkpoint_ms),
    )


def _kernel_state(row: Row[Any]) -> KernelRow:
    return KernelRow(
        kernel_id=KernelId(row.kernel_id),
        index=row.kernel_index,
        status=_STATUSES[row.status],
        version=row.version,
        history_sequence=row.history_sequence,
        since_ms=row.since_ms,
        attempt=row.attempt,
        agent_id=None if row.agent_id is None else AgentId(row.agent_id),
        incarnation=row.incarnation,
        sent=bool(row.sent),
        rank=row.rank,
        follow_up=None if row.follow_up is None else FollowUp(row.follow_up),
        ports_text=row.ports,
        host_ports_text=row.host_ports,
        exit_code=row.exit_code,
        slots_text=row.slots,
        devices_text=row.devices,
        architecture=row.architecture,
        require_text=row.require,
    )


def _session_record(row: Row[Any], spec: SessionSpec, kernels: Sequence[KernelRecord]) -> SessionRecord:
    return SessionRecord(
        session_id=SessionId(row.session_id),
        spec=spec,
        status=SessionStatus(row.status),
        version=row.version,
        goal=Goal(row.goal),
        submitted_ms=row.submitted_ms,
        kernels=tuple(kernels),
        scheduled_ms=row.scheduled_ms,
        ended_ms=row.ended_ms,
        cause=row.cause,
        cause_detail=row.cause_detail,
        result=None if row.result is None else SessionResult(row.result),
        hypernode=row.hypernode,
        place=row.place,
        since_ms=row.since_ms,
        failed_starts=failed_starts_of(row.failed_starts),
        group_domains=msgspec.json.decode(row.group_domains),
        sealed=row.sealed,
        evictions=evictions_of(row.evictions),
        checkpoint_ms=row.checkpoint_ms,
        loan=row.loan,
    )
