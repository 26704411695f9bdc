"""The audit trail, tamper-evident by a hash chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One call that changed something, or was denied."""

    who: str
    action: str
    target: str
    outcome: str
    request_id: str = ""
    detail: Mapping[str, str] = field(default_factory=dict)


class AuditTrail(Protocol):
    """Append-only list of audit entries."""

    async def append(self, *entries: AuditEntry) -> int:
        """Add entries to the chain, in this order; the number of the last one in it."""

    async def page(self, *, limit: int, after: int = 0, newest: bool = False) -> Sequence[tuple[int, int, AuditEntry]]:
        """Entries after a number, oldest first, as (number, time, entry).

        With `newest` they come newest first, so that those after a number are older; after 0
        all are.
        """

    async def first_broken(self) -> int | None:
        """The number of the first entry that does not fit the chain; None if all do.

        A missing beginning fits if the trail records its removal by `Store.expire`.
        """
