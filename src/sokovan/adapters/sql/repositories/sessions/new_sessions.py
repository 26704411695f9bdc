"""What decides about new sessions: what must be there for them, and what must not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.rows import TEXT, WHOLE, Rows
from sokovan.adapters.sql.schema.tables import KERNELS, NAMED, REQUESTS, SCALING_GROUPS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict, IdempotencyConflict, ObjectNotFound, quoted
from sokovan.domain.ids import SessionId
from sokovan.domain.session import SessionSpec
from sokovan.ports.repositories.sessions import NewSession, RequestKey

# A session, and its place among those that are stored together.
Placed: TypeAlias = tuple[int, NewSession]
NAME_HINT = "choose another name, or end that session first; a name is free again when its session has ended"


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

    def add(self, what: str, object_id: str, digest: str) -> None:
        """A row of what was looked up."""
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
        """Name what is missing or in the way. Raises NotFound, Conflict."""
        if spec.scaling_group not in self.scaling_groups:
            raise ObjectNotFound(what="scaling group", name=spec.scaling_group)
        for dependency in sorted(set(spec.dependencies) - self.dependencies):
            raise ObjectNotFound(what="session", name=dependency)
        if self.taken:
            raise Conflict(f"the id {quoted(min(self.taken))} is there already")
        if self.namesake:
            raise name_taken(spec, f": {self.namesake}")


async def look(transaction: Transaction, wanted: Sequence[NewSession]) -> list[Found]:
    """Everything that decides about new sessions, in one statement for all of them."""
    statement, sessions, kernels, needed = _look(transaction.postgresql)
    places = list(enumerate(one.spec for one in wanted))
    bound = {
        **sessions.bind(_asked(place, one) for place, one in enumerate(wanted)),
        **kernels.bind((place, kernel.kernel_id) for place, spec in places for kernel in spec.kernels),
        **needed.bind((place, dependency) for place, spec in places for dependency in spec.dependencies),
    }
    found = [Found() for _ in wanted]
    for row in await transaction.fetch(statement, bound):
        found[row.place].add(row.what, row.id, row.digest)
    return found


def _asked(place: int, new: NewSession) -> tuple[int | str, ...]:
    spec, request = new.spec, new.request
    key = ("", "") if request is None else (request.scope, request.key)
    return (place, spec.session_id, spec.scaling_group, spec.owner.user, spec.name, *key)


def apart(wanted: Sequence[Placed]) -> tuple[list[Placed], list[Placed]]:
    """Those that share nothing that only one may have; the rest come after them."""
    taken: set[tuple[str, ...]] = set()
    first: list[Placed] = []
    rest: list[Placed] = []
    for place, new in wanted:
        spec, request = new.spec, new.request
        own: set[tuple[str, ...]] = {("id", spec.session_id), *(("id", kernel.kernel_id) for kernel in spec.kernels)}
        own |= {("name", spec.owner.user, spec.name)} if spec.name else set()
        own |= {("key", request.scope, request.key)} if request is not None else set()
        waited_for = {("id", dependency) for dependency in spec.dependencies}
        (rest if (own | waited_for) & taken else first).append((place, new))
        taken |= own
    return first, rest


async def earlier(transaction: Transaction, request: RequestKey) -> tuple[SessionId, str] | None:
    """The session that a key made before, with the digest of what was asked then."""
    same = (REQUESTS.c.scope == request.scope, REQUESTS.c.key == request.key)
    row = await transaction.first(sa.select(REQUESTS.c.session_id, REQUESTS.c.digest).where(*same))
    return None if row is None else (SessionId(row.session_id), row.digest)


def session_of(earlier: tuple[SessionId, str] | None, request: RequestKey) -> SessionId:
    """The session that the same request made before. Raises IdempotencyConflict."""
    if earlier is None or earlier[1] != request.digest:
        raise IdempotencyConflict(f"idempotency key {request.key!r} came with another request before")
    return earlier[0]


def name_taken(spec: SessionSpec, which: str = "") -> Conflict:
    """A user has a session of this name that has not ended."""
    return Conflict(f"user {spec.owner.user} has a session {quoted(spec.name)} already{which}", hint=NAME_HINT)


@cache
def _look(postgresql: bool) -> tuple[sa.CompoundSelect[Any], Rows, Rows, Rows]:  # noqa: FBT001  # a key of the cache
    names = ("session_id", "scaling_group", "user", "name", "scope", "key")
    asked = Rows("asked", {"place": WHOLE, **dict.fromkeys(names, TEXT)}, postgresql=postgresql)
    kernels = Rows("kernel_ids", {"place": WHOLE, "id": TEXT}, postgresql=postgresql)
    needed = Rows("needed_ids", {"place": WHOLE, "id": TEXT}, postgresql=postgresql)

    def arm(what: str, rows: Rows, column: sa.ColumnElement[Any], *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
        digest = REQUESTS.c.digest if what == "request" else sa.literal_column("''", TEXT)
        kind = sa.literal_column(f"'{what}'", TEXT)
        return sa.select(kind.label("what"), rows.c.place, column.label("id"), digest.label("digest")).where(*where)

    session, goes_on = SESSIONS.c, (NAMED, SESSIONS.c.ended_ms.is_(None))
    own_name = (session.user == asked.c.user, session.name == asked.c.name)
    own_key = (REQUESTS.c.scope == asked.c.scope, REQUESTS.c.key == asked.c.key)
    statement = sa.union_all(
        arm("group", asked, SCALING_GROUPS.c.name, SCALING_GROUPS.c.name == asked.c.scaling_group),
        arm("session", asked, session.session_id, session.session_id == asked.c.session_id),
        arm("kernel", kernels, KERNELS.c.kernel_id, KERNELS.c.kernel_id == kernels.c.id),
        arm("dependency", needed, session.session_id, session.session_id == needed.c.id),
        arm("name", asked, session.session_id, *own_name, *goes_on),
        arm("request", asked, REQUESTS.c.session_id, *own_key),
    )
    return statement, asked, kernels, needed
