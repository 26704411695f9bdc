"""Checks the laws of a store, without changing anything in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.invariants.auditor import INVARIANTS, NOT_CHECKED, AuditFinding, audit
from sokovan.adapters.sql.store import SqlStore, TransactionRetry
from sokovan.domain.errors import InvalidInput, listed, quoted
from sokovan.entrypoints.database import opened, shown

__all__ = ["AuditFinding", "AuditReport", "UnknownInvariant", "audited", "chosen"]

# A command that somebody waits for says soon that the database is away.
RETRY = TransactionRetry(give_up_s=3.0)


class UnknownInvariant(InvalidInput):
    """A law that is asked for, and that there is none of or that rows cannot tell."""

    code = "unknown-invariant"
    hint = f"known are {', '.join(invariant.id for invariant in INVARIANTS)}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found, and where it looked."""

    store: str
    findings: Sequence[AuditFinding]

    @property
    def holds(self) -> bool:
        """Whether every law that was asked holds."""
        return all(finding.holds for finding in self.findings)


def audited(address: str, *, only: Sequence[str] = ()) -> AuditReport:
    """Every law, or those named in `only`, checked on one state of a store.

    Raises SchemaMismatch, StoreMissing, NotADatabase, StoreUnavailable.
    """

    async def look() -> AuditReport:
        async with opened(address, read_only=True) as database:
            await migration.check(database)
            store = SqlStore(database, ids=SortableIds(database.clock), retry=RETRY)
            return AuditReport(shown(database), await audit(store, only=only))

    return asyncio.run(look())


def chosen(text: str) -> list[str]:
    """The numbers of laws in a list such as `I1,I7`. Raises UnknownInvariant."""
    known = {invariant.id for invariant in INVARIANTS}
    wanted = [part.strip().upper() for part in text.split(",") if part.strip()]
    if not wanted:
        raise UnknownInvariant("name at least one invariant")
    for name in wanted:
        if name in NOT_CHECKED:
            raise UnknownInvariant(f"{name} is not judged from the store: {NOT_CHECKED[name]}")
        if name not in known:
            close = get_close_matches(name, sorted(known), n=3)
            asked = f"; did you mean {listed(close)}?" if close else ""
            raise UnknownInvariant(f"there is no invariant {quoted(name)}{asked}")
    return wanted
