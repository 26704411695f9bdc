"""Enqueues new sessions: checks preconditions, then inserts rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.sessions.session_names import array_is_live, name_taken
from sokovan.adapters.sql.repositories.sessions.session_rows import (
    requested_ports_text,
    require_text,
    slots_text,
)
from sokovan.adapters.sql.repositories.sessions.session_summaries import sizes, texts
from sokovan.adapters.sql.rows import FLAG, TEXT, WHOLE, Rows, common_columns
from sokovan.adapters.sql.schema.spec_codec import remember_spec
from sokovan.adapters.sql.schema.tables import (
    ARRAY_DEPENDENCIES,
    ARRAYS,
    DEPENDENCIES,
    KERNELS,
    NAMED,
    REQUESTS,
    SCALING_GROUPS,
    SESSIONS,
)
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.errors import Conflict, IdempotencyConflict, ObjectNotFound, SokovanError, quoted
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.session import SESSION, Goal
from sokovan.domain.records import FIRST_VERSION, Change, SessionRecord, new_kernels
from sokovan.domain.session import SessionSpec
from sokovan.ports.repositories.sessions import NewSession, RequestKey

# A session with its index in the batch.
IndexedSession: TypeAlias = tuple[int, NewSession]
# Sessions that one unit of work can number, in the order of submission.
PLACES_PER_UNIT = 1 << 20
_INSERT_SESSIONS, _INSERT_KERNELS = sa.insert(SESSIONS), sa.insert(KERNELS)
# Kernels that are inserted with a statement for each.
SEPARATE_MAX = 64
# In the order of `_kernel_rows`.
_KERNEL_COLUMNS: Mapping[str, Any] = {
    "kernel_id": TEXT, "session_id": TEXT, "index": WHOLE, "status": TEXT, "version": WHOLE,
    "history_sequence": WHOLE, "attempt": WHOLE, "since_ms": WHOLE, "sent": FLAG, "slots": TEXT,
    "architecture": TEXT, "require": TEXT, "devices": TEXT, "ports": TEXT,
}  # fmt: skip


@dataclass(slots=True)
class Preconditions:
    """The stored rows that a new session refers to or conflicts with."""

    scaling_groups: set[str] = field(default_factory=set)
    dependencies: set[str] = field(default_factory=set)
    # Existing sessions and kernels with an id of the new session.
    taken: set[str] = field(default_factory=set)
    # The live session or array of the user with the same name.
    namesake: str = ""
    # The session that the same idempotency key created, with the digest of that request.
    earlier: tuple[SessionId, str] | None = None

    def add(self, what: str, object_id: str, digest: str) -> None:
        """Add a row of the lookup."""
        match what:
            case "group":
                self.scaling_groups.add(object_id)
            case "dependency":
                self.dependencies.add(object_id)
            case "name":
                self.namesake = object_id
            case "request":
                self.earlier = (SessionId(object_id), digest)
            case _:
                self.taken.add(object_id)

    def check(self, spec: SessionSpec) -> None:
        """Raises ObjectNotFound or Conflict, with the name of the object."""
        if spec.scaling_group not in self.scaling_groups:
            raise ObjectNotFound(what="scaling group", name=spec.scaling_group)
        for dependency in sorted(set(spec.awaited) - self.dependencies):
            raise ObjectNotFound(what="session", name=dependency)
        if self.taken:
            raise Conflict(f"the id {quoted(min(self.taken))} exists already")
        if self.namesake:
            raise name_taken(spec.owner.user, spec.name, f": {self.namesake}")


async def read_preconditions(transaction: Transaction, new: Sequence[NewSession]) -> list[Preconditions]:
    """Read the preconditions of all new sessions in one statement."""
    statement, sessions, kernels, needed = _preconditions(transaction.postgresql)
    specs = list(enumerate(one.spec for one in new))
    bound = {
        **sessions.bind(_lookup_row(place, one) for place, one in enumerate(new)),
        **kernels.bind((place, kernel.kernel_id) for place, spec in specs for kernel in spec.kernels),
        **needed.bind((place, dependency) for place, spec in specs for dependency in spec.awaited),
    }
    found = [Preconditions() for _ in new]
    for row in await transaction.fetch(statement, bound):
        found[row.place].add(row.what, row.id, row.digest)
    return found


async def with_successors(transaction: Transaction, new: Sequence[NewSession]) -> list[NewSession]:
    """The sessions, dependent on the last successor of each session that was replaced.

    Locks the dependencies, so that a replacement is either seen here, or sees the new
    sessions among the dependents.
    """
    successors: dict[str, str] = {}
    wanted = {dependency for one in new for dependency in one.spec.dependencies}
    while wanted:
        rows = await transaction.fetch(_successors(transaction.postgresql), bound_ids(transaction, sorted(wanted)))
        found = {row.session_id: row.replaced_by for row in rows if row.replaced_by is not None}
        successors |= found
        wanted = set(found.values())
    if not successors:
        return list(new)
    return [replace(one, spec=_following(one.spec, successors)) for one in new]


def _following(spec: SessionSpec, successors: Mapping[str, str]) -> SessionSpec:
    def last(session_id: str) -> SessionId:
        while session_id in successors:
            session_id = successors[session_id]
        return SessionId(session_id)

    return replace(spec, dependencies=tuple(dict.fromkeys(map(last, spec.dependencies))))


@cache
def _successors(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    wanted = sa.select(ids_table(postgresql).c.id)
    statement = sa.select(SESSIONS.c.session_id, SESSIONS.c.replaced_by).where(SESSIONS.c.session_id.in_(wanted))
    return statement.order_by(SESSIONS.c.session_id).with_for_update(read=True)


def _lookup_row(place: int, new: NewSession) -> tuple[int | str, ...]:
    spec, request = new.spec, new.request
    key = ("", "") if request is None else (request.scope, request.key)
    return (place, spec.session_id, spec.scaling_group, spec.owner.user, spec.name, *key)


def split_conflicting(new: Sequence[IndexedSession]) -> tuple[list[IndexedSession], list[IndexedSession]]:
    """Split into sessions without a common id, name or key, and those to insert later."""
    taken: set[tuple[str, ...]] = set()
    first: list[IndexedSession] = []
    rest: list[IndexedSession] = []
    for place, session in new:
        spec, request = session.spec, session.request
        own: set[tuple[str, ...]] = {("id", spec.session_id), *(("id", kernel.kernel_id) for kernel in spec.kernels)}
        own |= {("name", spec.owner.user, spec.name)} if spec.name else set()
        own |= {("key", request.scope, request.key)} if request is not None else set()
        waited_for = {("id", dependency) for dependency in spec.dependencies}
        (rest if (own | waited_for) & taken else first).append((place, session))
        taken |= own
    return first, rest


def split_namesakes(
    new: Sequence[IndexedSession], stored: Iterable[SessionRecord | SokovanError]
) -> tuple[dict[int, SokovanError], list[IndexedSession]]:
    """Split into refusals of sessions whose name was just stored, and the others.

    A request with an idempotency key may be a repeated one, which is answered with its session.
    """
    taken = {
        (one.spec.owner.user, one.spec.name): one.session_id
        for one in stored
        if isinstance(one, SessionRecord) and one.spec.name and one.status is SESSION.initial
    }
    refused: dict[int, SokovanError] = {}
    rest: list[IndexedSession] = []
    for place, session in new:
        spec = session.spec
        namesake = taken.get((spec.owner.user, spec.name))
        if namesake is None or session.request is not None:
            rest.append((place, session))
        else:
            refused[place] = name_taken(spec.owner.user, spec.name, f": {namesake}")
    return refused, rest


async def find_earlier(transaction: Transaction, request: RequestKey) -> tuple[SessionId, str] | None:
    """The session that an idempotency key created, with the digest of that request."""
    same = (REQUESTS.c.scope == request.scope, REQUESTS.c.key == request.key)
    row = await transaction.first(sa.select(REQUESTS.c.session_id, REQUESTS.c.digest).where(*same))
    return None if row is None else (SessionId(row.session_id), row.digest)


def replayed_session(earlier: tuple[SessionId, str] | None, request: RequestKey) -> SessionId:
    """The session that the same request created before. Raises IdempotencyConflict."""
    if earlier is None or earlier[1] != request.digest:
        raise IdempotencyConflict(f"idempotency key {request.key!r} was used with another request before")
    return earlier[0]


@cache
def _preconditions(postgresql: bool) -> tuple[sa.CompoundSelect[Any], Rows, Rows, Rows]:  # noqa: FBT001  # a key of the cache
    names = ("session_id", "scaling_group", "user", "name", "scope", "key")
    new = Rows("new_sessions", {"place": WHOLE, **dict.fromkeys(names, TEXT)}, postgresql=postgresql)
    kernels = Rows("kernel_ids", {"place": WHOLE, "id": TEXT}, postgresql=postgresql)
    needed = Rows("needed_ids", {"place": WHOLE, "id": TEXT}, postgresql=postgresql)

    def arm(what: str, rows: Rows, column: sa.ColumnElement[Any], *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
        digest = REQUESTS.c.digest if what == "request" else sa.literal_column("''", TEXT)
        kind = sa.literal_column(f"'{what}'", TEXT)
        return sa.select(kind.label("what"), rows.c.place, column.label("id"), digest.label("digest")).where(*where)

    session, is_live = SESSIONS.c, (NAMED, SESSIONS.c.ended_ms.is_(None))
    same_name = (session.user == new.c.user, session.name == new.c.name)
    same_key = (REQUESTS.c.scope == new.c.scope, REQUESTS.c.key == new.c.key)
    statement = sa.union_all(
        arm("group", new, SCALING_GROUPS.c.name, SCALING_GROUPS.c.name == new.c.scaling_group),
        arm("session", new, session.session_id, session.session_id == new.c.session_id),
        arm("kernel", kernels, KERNELS.c.kernel_id, KERNELS.c.kernel_id == kernels.c.id),
        arm("dependency", needed, session.session_id, session.session_id == needed.c.id),
        arm("dependency", needed, ARRAYS.c.array_id, ARRAYS.c.array_id == needed.c.id),
        arm("name", new, session.session_id, *same_name, *is_live),
        arm("name", new, ARRAYS.c.array_id, ARRAYS.c.user == new.c.user, ARRAYS.c.name == new.c.name, array_is_live()),
        arm("request", new, REQUESTS.c.session_id, *same_key),
    )
    return statement, new, kernels, needed


class RequestKeyTaken(Exception):
    """A concurrent transaction inserted the same idempotency key first."""


async def insert_request_keys(transaction: Transaction, new: Sequence[NewSession]) -> None:
    """Insert the idempotency keys of requests. Raises RequestKeyTaken.

    Waits for a concurrent transaction that inserts the same key.
    """
    keyed = [(one.request, one.spec.session_id) for one in new if one.request is not None]
    # In one global order, so that two transactions with the same keys do not deadlock.
    for request, session_id in sorted(keyed, key=lambda pair: (pair[0].scope, pair[0].key)):
        values = {"scope": request.scope, "key": request.key, "digest": request.digest, "session_id": session_id}
        if not await transaction.insert_new(REQUESTS, {**values, "at_ms": transaction.now_ms}):
            raise RequestKeyTaken(request.key)


async def insert(transaction: Transaction, new: Sequence[NewSession]) -> list[SessionRecord]:
    """Insert sessions as PENDING and return their records. Raises RequestKeyTaken."""
    await insert_request_keys(transaction, new)
    specs = [one.spec for one in new]
    by_change: dict[Change, list[SessionSpec]] = {}
    for one in new:
        by_change.setdefault(one.change, []).append(one.spec)
    rows = [_session_row(one, transaction) for one in new]
    for change, some in by_change.items():
        await history.append(
            transaction, SESSION.name, [history.first_row(spec.session_id, SESSION) for spec in some], change
        )
    await transaction.execute(_INSERT_SESSIONS, rows)
    for change, some in by_change.items():
        kernels = [history.first_row(kernel.kernel_id, KERNEL) for spec in some for kernel in spec.kernels]
        await history.append(transaction, KERNEL.name, kernels, change)
    await _insert_kernels(transaction, [row for spec in specs for row in _kernel_rows(spec, transaction)])
    pairs = [
        {"session_id": spec.session_id, "depends_on": dependency}
        for spec in specs
        for dependency in dict.fromkeys(spec.dependencies)
    ]
    if pairs:
        await transaction.execute(sa.insert(DEPENDENCIES), pairs)
    arrays = [
        {"session_id": spec.session_id, "array_id": array}
        for spec in specs
        for array in dict.fromkeys(spec.array_dependencies)
    ]
    if arrays:
        await transaction.execute(sa.insert(ARRAY_DEPENDENCIES), arrays)
    return [_record(spec, row) for spec, row in zip(specs, rows, strict=True)]


async def _insert_kernels(transaction: Transaction, rows: list[dict[str, Any]]) -> None:
    """Insert kernels; those of a large session in one step of the database, which others cannot hold up."""
    if len(rows) <= SEPARATE_MAX:
        await transaction.execute(_INSERT_KERNELS, rows)
        return
    values = [tuple(row.values()) for row in rows]
    common = common_columns(values, _KERNEL_COLUMNS, postgresql=transaction.postgresql)
    statement, table = _insert_many(transaction.postgresql, common)
    await transaction.execute(statement, table.bind(values))


@cache
def _insert_many(postgresql: bool, common: frozenset[str]) -> tuple[sa.Insert, Rows]:  # noqa: FBT001  # a key of the cache
    rows = Rows("kernels_of_gang", _KERNEL_COLUMNS, postgresql=postgresql, common=common)
    chosen = sa.select(*[rows.c[name] for name in _KERNEL_COLUMNS])
    return sa.insert(KERNELS).from_select(list(_KERNEL_COLUMNS), chosen), rows


def _session_row(new: NewSession, transaction: Transaction) -> dict[str, Any]:
    spec, written = new.spec, texts(new.spec)
    remember_spec(written["body"], spec)
    transaction.enqueued += 1
    return {
        "session_id": spec.session_id,
        "name": spec.name,
        "place": transaction.number * PLACES_PER_UNIT + transaction.enqueued,
        "status": SESSION.initial.value,
        "version": FIRST_VERSION,
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
        "array_id": None if spec.array is None else spec.array.array_id,
        **written,
        **sizes(spec),
        "sealed": new.sealed,
    }


def _kernel_rows(spec: SessionSpec, transaction: Transaction) -> list[dict[str, Any]]:
    return [
        {
            "kernel_id": kernel.kernel_id,
            "session_id": spec.session_id,
            "index": index,
            "status": KERNEL.initial.value,
            "version": FIRST_VERSION,
            "history_sequence": 1,
            "attempt": 1,
            "since_ms": transaction.now_ms,
            "sent": False,
            "slots": slots_text(kernel.slots),
            "architecture": kernel.architecture,
            "require": require_text(kernel.require),
            "devices": "{}",
            "ports": requested_ports_text(spec, index),
        }
        for index, kernel in enumerate(spec.kernels)
    ]


def _record(spec: SessionSpec, row: dict[str, Any]) -> SessionRecord:
    """The record of a session inserted in this transaction, without reading it again."""
    now_ms: int = row["submitted_ms"]
    return SessionRecord(
        session_id=spec.session_id,
        spec=spec,
        status=SESSION.initial,
        version=FIRST_VERSION,
        goal=Goal.RUN,
        submitted_ms=now_ms,
        kernels=tuple(new_kernels(spec, now_ms)),
        place=row["place"],
        since_ms=now_ms,
        sealed=row["sealed"],
    )
