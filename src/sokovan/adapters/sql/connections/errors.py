"""Classes of database errors: what may be retried, and what is a lost connection."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, InterfaceError

# Serialization failure, deadlock, lock not available, and a statement that the server cancelled because it took too
# long: the server answers, others are in the way, and the transaction may be retried.
_CONTENDED = frozenset({"40001", "40P01", "55P03", "57014"})
# The server stopped or is not up yet; class 08 are connection errors.
_SERVER_AWAY = frozenset({"57P01", "57P02", "57P03", "53300", "53100", "25006"})
_DISK_FULL = frozenset({"53100"})
_SQLITE_NO_ROOM = "database or disk is full"
_SQLITE_FULL = (_SQLITE_NO_ROOM, "disk I/O error")
# A full disk makes SQLite roll back the transaction, including its savepoints.
_SQLITE_TRY_AGAIN = ("database is locked", "database table is locked", "no such savepoint", *_SQLITE_FULL)


def is_retryable(error: BaseException) -> bool:
    """Whether the whole unit of work may be retried."""
    if not isinstance(error, DBAPIError):
        return False
    text = str(error.orig)
    return is_contention(error) or any(sign in text for sign in _SQLITE_TRY_AGAIN)


def is_contention(error: BaseException) -> bool:
    """Whether a transaction failed because of others, at a server that answers."""
    return isinstance(error, DBAPIError) and _state_of(error) in _CONTENDED


def is_full_disk(error: BaseException) -> bool:
    """Whether the disk of the database is full, or cannot be written."""
    if not isinstance(error, DBAPIError):
        return False
    return _state_of(error) in _DISK_FULL or any(sign in str(error.orig) for sign in _SQLITE_FULL)


def is_refused_commit(error: BaseException) -> bool:
    """Whether a commit failed for certain: SQLite had no room for the last part of it."""
    return isinstance(error, DBAPIError) and _SQLITE_NO_ROOM in str(error.orig)


def is_connection_loss(error: BaseException) -> bool:
    """Whether the database could not be reached in time, or the connection was lost."""
    # SQLAlchemy's TimeoutError: every connection of the pool was busy for too long.
    if isinstance(error, OSError | TimeoutError | asyncio.TimeoutError | sa.exc.TimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    state = _state_of(error)
    gone = state in _SERVER_AWAY or state.startswith("08")
    # An InterfaceError may also be a programming error, such as too many parameters, which a retry does not fix.
    closed = isinstance(error, InterfaceError) and "clos" in str(error.orig)
    return gone or error.connection_invalidated or closed


def _state_of(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""
