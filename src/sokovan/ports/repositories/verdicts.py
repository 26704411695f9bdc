"""Repository of the last scheduling verdict of each waiting session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.ids import ScalingGroupName, SessionId


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """The last verdict on a waiting session.

    `document` is the complete verdict as JSON (see scheduling/codec.py). `first_ms` and
    `times` count how long the same code has been the result. `held` says that a quota,
    a dependency or its start time holds the session; `eligible_ms` is since when
    nothing has, None while something does.
    """

    session_id: SessionId
    code: str
    summary: str
    document: str
    first_ms: int = 0
    last_ms: int = 0
    times: int = 1
    held: bool = False
    eligible_ms: int | None = None


class VerdictRepository(Protocol):
    """One verdict per waiting session; started sessions have none."""

    async def put(self, verdicts: Sequence[StoredVerdict]) -> None:
        """Store these verdicts, replacing earlier ones; the time is the store's.

        A repeated code is counted, and `eligible_ms` is kept until a verdict says that the
        session is held; `first_ms`, `last_ms`, `times` and `eligible_ms` of the given
        verdicts are ignored. Sessions that do not exist or no longer wait are
        ignored.
        """

    async def get(self, session_id: SessionId) -> StoredVerdict | None:
        """The last verdict on a session; None if there is none, or it no longer waits."""

    async def of(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, StoredVerdict]:
        """The last verdicts of those of these sessions that wait and have one."""

    async def remove(self, session_ids: Sequence[SessionId]) -> None:
        """Delete the verdicts of sessions that no longer wait."""

    async def eligible_before(self, group: ScalingGroupName, until_ms: int, *, limit: int) -> Sequence[SessionId]:
        """Waiting sessions of a scaling group that were eligible by then, longest first."""
