"""The audit trail, a hash chain: each entry has the digest of the previous one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from sokovan.adapters.sql.repositories.catalog_locks import lock_to_change
from sokovan.adapters.sql.schema.tables import AUDIT_LOG
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.plain_values import from_plain, to_plain
from sokovan.ports.repositories.audit import AuditEntry

BEGINNING = "0" * 64
REMOVED = "audit.remove"
REMOVED_LEAST, REMOVED_AT_ONCE = 1_000, 2_000
DAY_MS = 24 * 3_600_000
_READ_AT_ONCE = 1_000
_LAST = sa.select(AUDIT_LOG.c.sequence, AUDIT_LOG.c.digest).order_by(AUDIT_LOG.c.sequence.desc()).limit(1)
_FIRST = sa.select(AUDIT_LOG).order_by(AUDIT_LOG.c.sequence).limit(1)
_INSERT = sa.insert(AUDIT_LOG)


class SqlAuditTrail:
    """The audit trail on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def append(self, *entries: AuditEntry) -> int:
        """See the port."""
        if entries:
            # Alone: two entries after the same one would break the chain. A lock of the table itself would need the
            # privilege to change entries.
            await lock_to_change(self._transaction, AUDIT_LOG)
        last = await self._transaction.first(_LAST)
        before, digest = (0, BEGINNING) if last is None else (last.sequence, last.digest)
        now_ms, rows = self._transaction.now_ms, []
        for number, entry in enumerate(entries, start=before + 1):
            text = _text(entry)
            row = {"sequence": number, "at_ms": now_ms, "entry": text, "previous": digest}
            digest = _digest(digest, number, now_ms, text)
            rows.append({**row, "digest": digest})
        if rows:
            await self._transaction.execute(_INSERT, rows)
        return before + len(rows)

    async def page(self, *, limit: int, after: int = 0, newest: bool = False) -> Sequence[tuple[int, int, AuditEntry]]:
        """See the port."""
        number = AUDIT_LOG.c.sequence
        beyond = [number < after] if newest and after else [] if newest else [number > after]
        statement = sa.select(AUDIT_LOG).where(*beyond).order_by(number.desc() if newest else number)
        rows = await self._transaction.fetch(statement.limit(limit))
        return [
            (row.sequence, row.at_ms, from_plain(AuditEntry, msgspec.json.decode(row.entry), key="entry"))
            for row in rows
        ]

    async def prune(self, kept_ms: int) -> int:
        """Remove the oldest entries, and record it in the chain; how many.

        Few entries are left until they are a day too old: each removal adds an entry.
        """
        before_ms = self._transaction.now_ms - kept_ms
        oldest = await self._transaction.first(_FIRST)
        if oldest is None or oldest.at_ms >= before_ms:
            return 0
        old = sa.and_(AUDIT_LOG.c.sequence < oldest.sequence + REMOVED_AT_ONCE, AUDIT_LOG.c.at_ms < before_ms)
        last = await self._transaction.first(_LAST.where(old))
        count = 0 if last is None else last.sequence - oldest.sequence + 1
        if last is None or (count < REMOVED_LEAST and oldest.at_ms >= before_ms - DAY_MS):
            return 0
        await self.append(_removal(last.sequence, last.digest))
        await self._transaction.execute(sa.delete(AUDIT_LOG).where(AUDIT_LOG.c.sequence <= last.sequence))
        return int(count)

    async def _beginning(self) -> tuple[str, int] | None:
        """The digest and number before the first entry; None if its removal is not recorded."""
        first = await self._transaction.first(_FIRST)
        if first is None or first.sequence == 1:
            return BEGINNING, 0
        # The whole entry is compared: a part of it may be in an entry with a name that a user chose.
        expected = _text(_removal(first.sequence - 1, first.previous))
        recorded = sa.select(AUDIT_LOG.c.sequence).where(AUDIT_LOG.c.entry == expected).limit(1)
        return None if await self._transaction.first(recorded) is None else (first.previous, first.sequence - 1)

    async def first_broken(self) -> int | None:
        """See the port."""
        begins = await self._beginning()
        if begins is None:
            return 1
        previous, number = begins
        while True:
            statement = sa.select(AUDIT_LOG).where(AUDIT_LOG.c.sequence > number).order_by(AUDIT_LOG.c.sequence)
            rows = await self._transaction.fetch(statement.limit(_READ_AT_ONCE))
            for row in rows:
                number += 1
                fits = row.sequence == number and row.previous == previous
                if not fits or row.digest != _digest(previous, number, row.at_ms, row.entry):
                    return number
                previous = row.digest
            if not rows:
                return None


def _text(entry: AuditEntry) -> str:
    return msgspec.json.encode(to_plain(entry), order="sorted").decode()


def _removal(sequence: int, digest: str) -> AuditEntry:
    """The entry that says up to which entry, and which digest, the trail was removed."""
    return AuditEntry("system", REMOVED, "audit", "done", detail={"through": str(sequence), "digest": digest})


def _digest(previous: str, number: int, at_ms: int, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{number}\n{at_ms}\n{text}".encode()).hexdigest()
