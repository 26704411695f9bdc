"""Leases on SQL, measured by the database's clock."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.schema.tables import LEASE_TERMS, LEASES
from sokovan.adapters.sql.store import SqlStore
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.ports.leases import Lease

_NAMED = LEASES.c.name == sa.bindparam("lease")
_LOCK = sa.select(LEASES).where(_NAMED).with_for_update()
_LOCK_TO_RENEW = sa.select(LEASES).where(_NAMED).with_for_update(key_share=True)
_EXTEND = sa.update(LEASES).where(_NAMED).values(expires_ms=sa.bindparam("until_ms"))


class SqlLeases:
    """Leases as rows. A new holder waits for the writes of the previous one.

    `sole` says that no other process can use the store, as the lock of a data folder
    proves: any other holder has ended, whatever the clock says, and its lease is taken.
    """

    def __init__(self, store: SqlStore, *, sole: bool = False) -> None:
        self._store, self._sole = store, sole

    async def acquire(self, name: str, *, holder: str, ttl_s: float) -> Lease | None:
        """See the port."""

        async def work(unit: SqlUnitOfWork) -> Lease | None:
            return await _acquire(unit.transaction, name, holder=holder, ttl_s=ttl_s, sole=self._sole)

        return await self._store.run_sql(work)

    async def renew(self, lease: Lease, *, ttl_s: float) -> Lease | None:
        """See the port."""

        async def work(unit: SqlUnitOfWork) -> Lease | None:
            row = await _locked(unit.transaction, lease.name, renewing=True)
            if row is None or (row.epoch, row.holder) != (lease.epoch, lease.holder):
                return None
            return await _extend(unit.transaction, lease.name, row, ttl_s=ttl_s)

        return await self._store.run_sql(work)

    async def release(self, lease: Lease) -> None:
        """See the port."""

        async def work(unit: SqlUnitOfWork) -> None:
            await unit.transaction.execute(
                sa.update(LEASES)
                .where(LEASES.c.name == lease.name, LEASES.c.epoch == lease.epoch)
                .values(expires_ms=unit.now_ms)
            )

        await self._store.run_sql(work)

    async def current(self, name: str) -> Lease | None:
        """See the port."""

        async def work(unit: SqlUnitOfWork) -> Lease | None:
            row = await unit.transaction.first(sa.select(LEASES).where(LEASES.c.name == name))
            if row is None or row.expires_ms <= unit.now_ms:
                return None
            return Lease(name=row.name, holder=row.holder, epoch=row.epoch, expires_ms=row.expires_ms)

        return await self._store.read(work)


async def _acquire(transaction: Transaction, name: str, *, holder: str, ttl_s: float, sole: bool) -> Lease | None:
    now, expires = transaction.now_ms, transaction.now_ms + int(ttl_s * 1000)
    first = {"name": name, "holder": holder, "epoch": 1, "expires_ms": expires}
    if await transaction.insert_new(LEASES, first):
        await _begin_term(transaction, name, holder=holder, epoch=1)
        return Lease(name=name, holder=holder, epoch=1, expires_ms=expires)
    row = await _locked(transaction, name)
    if row is None:
        return None
    if row.expires_ms > now and row.holder == holder:
        return await _extend(transaction, name, row, ttl_s=ttl_s)
    if row.expires_ms > now and not sole:
        return None
    # Expired, even if it was ours: others may have seen it free, so a new epoch begins.
    epoch = row.epoch + 1
    await transaction.execute(
        sa.update(LEASES).where(LEASES.c.name == name).values(holder=holder, epoch=epoch, expires_ms=expires)
    )
    await _begin_term(transaction, name, holder=holder, epoch=epoch)
    return Lease(name=name, holder=holder, epoch=epoch, expires_ms=expires)


async def _extend(transaction: Transaction, name: str, row: Row[Any], *, ttl_s: float) -> Lease:
    # Never shorter: a delayed renewal must not undo a later one.
    expires = max(row.expires_ms, transaction.now_ms + int(ttl_s * 1000))
    await transaction.execute(_EXTEND, {"lease": name, "until_ms": expires})
    return Lease(name=name, holder=row.holder, epoch=row.epoch, expires_ms=expires)


async def _begin_term(transaction: Transaction, name: str, *, holder: str, epoch: int) -> None:
    values = {"name": name, "epoch": epoch, "holder": holder, "since_ms": await transaction.current_ms()}
    await transaction.execute(sa.insert(LEASE_TERMS), values)


async def _locked(transaction: Transaction, name: str, *, renewing: bool = False) -> Row[Any] | None:
    """The lease row, locked; a renewal does not block the leader's own writes."""
    return await transaction.first(_LOCK_TO_RENEW if renewing else _LOCK, {"lease": name})
