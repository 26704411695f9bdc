"""Checks the invariants of a store, read-only."""

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

# A command reports an unavailable database sooner than the server does.
RETRY = TransactionRetry(give_up_s=3.0)


class UnknownInvariant(InvalidInput):
    """The requested invariant does not exist, or cannot be checked from rows."""

    code = "unknown-invariant"
    hint = f"known invariants: {', '.join(invariant.id for invariant in INVARIANTS)}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The findings of an audit, and the store it checked."""

    store: str
    findings: Sequence[AuditFinding]

    @property
    def holds(self) -> bool:
        """Whether all checked invariants hold."""
        return all(finding.holds for finding in self.findings)


def audited(address: str, *, only: Sequence[str] = ()) -> AuditReport:
    """Check all invariants, or those named in `only`, on one state of a store.

    Raises SchemaMismatch, StoreMissing, NotADatabase, StoreUnavailable.
    """

    async def check() -> AuditReport:
        async with opened(address, read_only=True) as database:
            await migration.check(database)
            store = SqlStore(database, ids=SortableIds(database.clock), retry=RETRY)
            return AuditReport(shown(database), await audit(store, only=only))

    return asyncio.run(check())


def chosen(text: str) -> list[str]:
    """The ids in a list such as `I1,I7`. Raises UnknownInvariant."""
    known = {invariant.id for invariant in INVARIANTS}
    requested = [part.strip().upper() for part in text.split(",") if part.strip()]
    if not requested:
        raise UnknownInvariant("name at least one invariant")
    for name in requested:
        if name in NOT_CHECKED:
            raise UnknownInvariant(f"{name} cannot be checked from the store: {NOT_CHECKED[name]}")
        if name not in known:
            close = get_close_matches(name, sorted(known), n=3)
            suggestion = f"; did you mean {listed(close)}?" if close else ""
            raise UnknownInvariant(f"there is no invariant {quoted(name)}{suggestion}")
    return requested
