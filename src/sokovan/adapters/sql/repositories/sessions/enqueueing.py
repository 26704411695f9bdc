"""New sessions, and the rows they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.sessions.new_sessions import name_taken
from sokovan.adapters.sql.repositories.sessions.session_rows import slots_text, spec_of, spec_text
from sokovan.adapters.sql.schema.tables import DEPENDENCIES, KERNELS, REQUESTS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.session import SESSION, Goal
from sokovan.domain.lifecycle.transition_table import TransitionTable
from sokovan.domain.records import Change, KernelRecord, SessionRecord
from sokovan.domain.session import SessionSpec
from sokovan.ports.repositories.sessions import NewSession

# Room for this many sessions in one unit of work, in the numbers that order them.
PLACES_PER_UNIT = 1 << 20
_INSERT_SESSIONS, _INSERT_KERNELS = sa.insert(SESSIONS), sa.insert(KERNELS)
# How the two databases say that the index of names refused a row.
_NAME_SIGNS = ("uq_sessions_user_name", "sessions.user, sessions.name")


class KeyTaken(Exception):
    """An equal request in another transaction was faster."""


async def take_keys(transaction: Transaction, wanted: Sequence[NewSession]) -> None:
    """Take the keys of requests. Raises KeyTaken.

    An equal request in another transaction is waited for here.
    """
    keyed = [(new.request, new.spec.session_id) for new in wanted if new.request is not None]
    # Everybody takes keys in one order, so that two who want the same do not wait for each other.
    for request, session_id in sorted(keyed, key=lambda pair: (pair[0].scope, pair[0].key)):
        values = {"scope": request.scope, "key": request.key, "digest": request.digest, "session_id": session_id}
        if not await transaction.insert_new(REQUESTS, {**values, "at_ms": transaction.now_ms}):
            raise KeyTaken(request.key)


async def insert(transaction: Transaction, wanted: Sequence[NewSession]) -> list[SessionRecord]:
    """Write sessions, PENDING; as they then are. Raises KeyTaken."""
    await take_keys(transaction, wanted)
    specs = [new.spec for new in wanted]
    by_change: dict[Change, list[SessionSpec]] = {}
    for new in wanted:
        by_change.setdefault(new.change, []).append(new.spec)
    rows = [_session_row(spec, transaction) for spec in specs]
    for change, some in by_change.items():
        await history.append(transaction, SESSION.name, [_first(spec.session_id, SESSION) for spec in some], change)
    await transaction.execute(_INSERT_SESSIONS, rows)
    for change, some in by_change.items():
        kernels = [_first(kernel.kernel_id, KERNEL) for spec in some for kernel in spec.kernels]
        await history.append(transaction, KERNEL.name, kernels, change)
    await transaction.execute(_INSERT_KERNELS, [row for spec in specs for row in _kernel_rows(spec, transaction)])
    pairs = [
        {"session_id": spec.session_id, "depends_on": one} for spec in specs for one in dict.fromkeys(spec.dependencies)
    ]
    if pairs:
        await transaction.execute(sa.insert(DEPENDENCIES), pairs)
    return [_record(spec, row) for spec, row in zip(specs, rows, strict=True)]


async def hand_over(transaction: Transaction, before: SessionId, after: SessionId) -> None:
    """Let sessions that wait for `before` wait for `after`; who started is left alone."""
    waiting = await transaction.fetch(
        sa.select(SESSIONS.c.session_id, SESSIONS.c.body)
        .join(DEPENDENCIES, DEPENDENCIES.c.session_id == SESSIONS.c.session_id)
        .where(DEPENDENCIES.c.depends_on == before, SESSIONS.c.status == SESSION.initial.value)
        .order_by(SESSIONS.c.session_id)
        .with_for_update(of=SESSIONS)
    )
    for row in waiting:
        spec = spec_of(row.body)
        dependencies = tuple(after if one == before else one for one in spec.dependencies)
        written = {"body": spec_text(replace(spec, dependencies=dependencies)), "stamp": transaction.stamp}
        await transaction.execute(
            sa.update(SESSIONS)
            .where(SESSIONS.c.session_id == row.session_id)
            .values(**written, version=SESSIONS.c.version + 1)
        )
        await transaction.execute(
            sa.update(DEPENDENCIES)
            .where(DEPENDENCIES.c.session_id == row.session_id, DEPENDENCIES.c.depends_on == before)
            .values(depends_on=after)
        )


def conflict_of(spec: SessionSpec, error: IntegrityError) -> Conflict:
    """What it means that the database refused a new session."""
    if any(sign in str(error.orig) for sign in _NAME_SIGNS):
        return name_taken(spec)
    return Conflict(f"a session {spec.session_id} or one of its kernels is there already")


def _first(object_id: str, table: TransitionTable[Any, Any]) -> history.HistoryRow:
    return history.HistoryRow(object_id, 1, None, table.initial.value, "submitted")


def _session_row(spec: SessionSpec, transaction: Transaction) -> dict[str, Any]:
    transaction.enqueued += 1
    return {
        "session_id": spec.session_id,
        "name": spec.name,
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


def _record(spec: SessionSpec, row: dict[str, Any]) -> SessionRecord:
    """A session that was written just now; nobody can have changed it, so it is not read again."""
    now_ms: int = row["submitted_ms"]
    return SessionRecord(
        session_id=spec.session_id,
        spec=spec,
        status=SESSION.initial,
        version=1,
        goal=Goal.RUN,
        submitted_ms=now_ms,
        kernels=tuple(
            KernelRecord(one.kernel_id, spec.session_id, index, KERNEL.initial, 1, one.slots, since_ms=now_ms)
            for index, one in enumerate(spec.kernels)
        ),
        place=row["place"],
        since_ms=now_ms,
    )
