"""Names that sessions and arrays of a user share: locked while one is stored.

Sessions and arrays are in different tables, so that no index makes a name unique among
both. A unit of work locks the names that it stores, and then checks them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.rows import WHOLE, Rows
from sokovan.adapters.sql.schema.tables import ARRAYS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict, quoted
from sokovan.domain.session import SessionSpec

NAME_HINT = "choose another name, or end that session first; a name can be reused when its session has ended"
_KEY_BYTES = 8
# Both databases' error texts for a violation of the name index.
_NAME_SIGNS = ("uq_sessions_user_name", "sessions.user, sessions.name")


async def lock_names(transaction: Transaction, names: Iterable[tuple[str, str]]) -> None:
    """Lock names of users until the end of the unit of work.

    Waits for other units of work that store them. SQLite has one writer at a time and needs no lock.
    """
    # In one global order, so that two units of work with the same names do not deadlock.
    keys = sorted({_lock_key(user, name) for user, name in names if name})
    if transaction.postgresql and keys:
        statement, rows = _lock_statement()
        await transaction.fetch(statement, rows.bind((key,) for key in keys))


async def require_free_name(transaction: Transaction, user: str, name: str) -> None:
    """Require that no live session or array of the user has a name. Raises Conflict."""
    mine = (SESSIONS.c.user == user, SESSIONS.c.name == name, SESSIONS.c.ended_ms.is_(None))
    arrays = sa.select(ARRAYS.c.array_id).where(ARRAYS.c.user == user, ARRAYS.c.name == name, array_is_live())
    found = await transaction.first(sa.union_all(sa.select(SESSIONS.c.session_id).where(*mine), arrays).limit(1))
    if found is not None:
        raise name_taken(user, name, f": {found[0]}")


def array_is_live() -> sa.ColumnElement[bool]:
    """Whether a session of an array has not ended, or is still to be stored."""
    member = sa.select(sa.literal(1)).where(SESSIONS.c.array_id == ARRAYS.c.array_id, SESSIONS.c.ended_ms.is_(None))
    return sa.or_(ARRAYS.c.unstored > 0, sa.exists(member))


def name_taken(user: str, name: str, which: str = "") -> Conflict:
    """The error for a name that another live session or array of the user has."""
    return Conflict(f"user {user} has a session {quoted(name)} already{which}", hint=NAME_HINT)


def conflict_of(spec: SessionSpec, error: IntegrityError) -> Conflict:
    """The domain error for a constraint violation on insert."""
    if any(sign in str(error.orig) for sign in _NAME_SIGNS):
        return name_taken(spec.owner.user, spec.name)
    return Conflict(f"a session {spec.session_id} or one of its kernels exists already")


def _lock_key(user: str, name: str) -> int:
    text = f"{len(user)} {user} {name}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_KEY_BYTES], "big", signed=True)


@cache
def _lock_statement() -> tuple[sa.Select[Any], Rows]:
    keys = Rows("name_locks", {"key": WHOLE}, postgresql=True)
    return sa.select(sa.func.pg_advisory_xact_lock(keys.c.key)), keys
