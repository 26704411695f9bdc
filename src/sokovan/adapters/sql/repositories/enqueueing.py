"""New sessions: what must be there, what must not, and the rows they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories import story
from sokovan.adapters.sql.repositories.session_rows import slots_text, spec_text
from sokovan.adapters.sql.rows import TEXT, Rows
from sokovan.adapters.sql.tables import DEPENDENCIES, KERNELS, NAMED, REQUESTS, SCALING_GROUPS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict, IdempotencyConflict, NotFound, quoted
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.machine import TransitionTable
from sokovan.domain.lifecycle.session import SESSION, Goal
from sokovan.domain.record import Change, KernelRecord, SessionRecord
from sokovan.domain.session import SessionSpec
from sokovan.ports.sessions import RequestKey

# Room for this many sessions in one unit of work, in the numbers that order them.
PLACES_PER_UNIT = 1 << 20
NAME_HINT = "choose another name, or end that session first; a name is free again when its session has ended"
_INSERT_SESSIONS, _INSERT_KERNELS = sa.insert(SESSIONS), sa.insert(KERNELS)
# How the two databases say that the index of names refused a row.
_NAME_SIGNS = ("uq_sessions_user_name", "sessions.user, sessions.name")


@dataclass(slots=True)
class Found:
    """What the store has of all that a new session names."""

    scaling_groups: set[str] = field(default_factory=set)
    dependencies: set[str] = field(default_factory=set)
    # Sessions and kernels that have an id of the new one.
    taken: set[str] = field(default_factory=set)
    # The session that has its name.
    namesake: str = ""
    # The session that the same key made before, with the digest of what was asked then.
    earlier: tuple[SessionId, str] | None = None

    def check(self, spec: SessionSpec) -> None:
        """Name what is missing or in the way. Raises NotFound, Conflict."""
        if spec.scaling_group not in self.scaling_groups:
            raise NotFound(what="scaling group", name=spec.scaling_group)
        for dependency in sorted(set(spec.dependencies) - self.dependencies):
            raise NotFound(what="session", name=dependency)
        if self.taken:
            raise Conflict(f"the id {quoted(min(self.taken))} is there already")
        if self.namesake:
            raise _name_taken(spec, f": {self.namesake}")


async def look(transaction: Transaction, spec: SessionSpec, request: RequestKey | None) -> Found:
    """Everything that decides about a new session, in one statement."""
    statement, kernels, needed = _look(transaction.postgresql)
    bound = {
        **kernels.bind([(kernel.kernel_id,) for kernel in spec.kernels]),
        **needed.bind([(dependency,) for dependency in spec.dependencies]),
        "the_id": spec.session_id,
        "the_group": spec.scaling_group,
        "the_user": spec.owner.user,
        "the_name": spec.name,
        "the_scope": "" if request is None else request.scope,
        "the_key": "" if request is None else request.key,
    }
    found = Found()
    for row in await transaction.fetch(statement, bound):
        match row.what:
            case "group":
                found.scaling_groups.add(row.id)
            case "dependency":
                found.dependencies.add(row.id)
            case "name":
                found.namesake = row.id
            case "request" if request is not None:
                found.earlier = (SessionId(row.id), row.digest)
            case "session" | "kernel":
                found.taken.add(row.id)
    return found


async def take_key(transaction: Transaction, request: RequestKey, session_id: SessionId) -> bool:
    """Take the key. The same request in another transaction is waited for here."""
    values = {"scope": request.scope, "key": request.key, "digest": request.digest}
    return await transaction.insert_new(REQUESTS, {**values, "session_id": session_id, "at_ms": transaction.now_ms})


def session_of(earlier: tuple[SessionId, str] | None, request: RequestKey) -> SessionId:
    """The session that the same request made before. Raises IdempotencyConflict."""
    if earlier is None or earlier[1] != request.digest:
        raise IdempotencyConflict(f"idempotency key {request.key!r} came with another request before")
    return earlier[0]


async def insert(transaction: Transaction, specs: Sequence[SessionSpec], change: Change) -> list[SessionRecord]:
    """Write sessions, PENDING, with their kernels; as they then are."""
    rows = [_session_row(spec, transaction) for spec in specs]
    await story.append(transaction, SESSION.name, [_first(spec.session_id, SESSION) for spec in specs], change)
    await transaction.execute(_INSERT_SESSIONS, rows)
    kernels = [_first(kernel.kernel_id, KERNEL) for spec in specs for kernel in spec.kernels]
    await story.append(transaction, KERNEL.name, kernels, change)
    await transaction.execute(_INSERT_KERNELS, [row for spec in specs for row in _kernel_rows(spec, transaction)])
    pairs = [
        {"session_id": spec.session_id, "depends_on": one} for spec in specs for one in dict.fromkeys(spec.dependencies)
    ]
    if pairs:
        await transaction.execute(sa.insert(DEPENDENCIES), pairs)
    return [_record(spec, row) for spec, row in zip(specs, rows, strict=True)]


def conflict_of(specs: Sequence[SessionSpec], error: IntegrityError) -> Conflict:
    """What it means that the database refused new sessions."""
    if any(sign in str(error.orig) for sign in _NAME_SIGNS):
        return _name_taken(specs[0]) if len(specs) == 1 else Conflict("a name is taken", hint=NAME_HINT)
    names = ", ".join(spec.session_id for spec in specs[:3])
    return Conflict(f"a session {names} or one of its kernels is there already")


def _name_taken(spec: SessionSpec, which: str = "") -> Conflict:
    return Conflict(f"user {spec.owner.user} has a session {quoted(spec.name)} already{which}", hint=NAME_HINT)


@cache
def _look(postgresql: bool) -> tuple[sa.CompoundSelect[Any], Rows, Rows]:  # noqa: FBT001  # a key of the cache
    kernels = Rows("kernel_ids", {"id": TEXT}, postgresql=postgresql)
    needed = Rows("needed_ids", {"id": TEXT}, postgresql=postgresql)

    def arm(what: str, column: sa.ColumnElement[Any], *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
        digest = REQUESTS.c.digest if what == "request" else sa.literal_column("''", TEXT)
        kind = sa.literal_column(f"'{what}'", TEXT)
        return sa.select(kind.label("what"), column.label("id"), digest.label("digest")).where(*where)

    def given(name: str) -> sa.BindParameter[str]:
        return sa.bindparam(f"the_{name}", type_=TEXT)

    goes_on = (NAMED, SESSIONS.c.ended_ms.is_(None))
    statement = sa.union_all(
        arm("group", SCALING_GROUPS.c.name, SCALING_GROUPS.c.name == given("group")),
        arm("session", SESSIONS.c.session_id, SESSIONS.c.session_id == given("id")),
        arm("kernel", KERNELS.c.kernel_id, KERNELS.c.kernel_id.in_(sa.select(kernels.c.id))),
        arm("dependency", SESSIONS.c.session_id, SESSIONS.c.session_id.in_(sa.select(needed.c.id))),
        arm(
            "name", SESSIONS.c.session_id, SESSIONS.c.user == given("user"), SESSIONS.c.name == given("name"), *goes_on
        ),
        arm("request", REQUESTS.c.session_id, REQUESTS.c.scope == given("scope"), REQUESTS.c.key == given("key")),
    )
    return statement, kernels, needed


def _first(object_id: str, table: TransitionTable[Any, Any]) -> story.Line:
    return story.Line(object_id, 1, None, table.initial.value, "submitted")


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
