"""Locks on kinds of catalog items, for decisions that depend on all of a kind.

SQLite has one writer at a time, and needs none.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa

from sokovan.adapters.sql.transaction import Transaction

_KEY = sa.bindparam("lock_key", type_=sa.BigInteger)
_ALONE = sa.select(sa.func.pg_advisory_xact_lock(_KEY))
_WITH_OTHERS = sa.select(sa.func.pg_advisory_xact_lock_shared(_KEY))


async def lock_to_change(transaction: Transaction, table: sa.Table) -> None:
    """Wait for those that rely on the items, and let others wait for this one."""
    if transaction.postgresql:
        await transaction.fetch(_ALONE, {"lock_key": _key_of(table)})


async def lock_to_rely_on(transaction: Transaction, table: sa.Table) -> None:
    """Wait for one that changes the items; what is read afterwards stays."""
    if transaction.postgresql:
        await transaction.fetch(_WITH_OTHERS, {"lock_key": _key_of(table)})


def _key_of(table: sa.Table) -> int:
    digest = hashlib.sha256(f"catalog {table.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
