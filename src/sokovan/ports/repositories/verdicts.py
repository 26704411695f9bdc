"""Why sessions wait, as the scheduler said it last: kept for whoever asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.ids import SessionId


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """The last verdict on a session that waits.

    `document` is the whole of it as JSON (scheduling/codec.py makes it). `first_ms` and
    `times` count how long the same code has been the answer.
    """

    session_id: SessionId
    code: str
    summary: str
    document: str
    first_ms: int = 0
    last_ms: int = 0
    times: int = 1


class VerdictRepository(Protocol):
    """One verdict per session that waits; a session that started has none."""

    async def put(self, verdicts: Sequence[StoredVerdict]) -> None:
        """Keep these, each in the place of the one before it; the time is the store's.

        The same code as before is counted. Sessions that are not there, or do not wait
        any more, are passed over.
        """

    async def get(self, session_id: SessionId) -> StoredVerdict | None:
        """The last verdict on a session; None if there is none, or it waits no longer."""

    async def of(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, StoredVerdict]:
        """The last verdicts on these sessions, those that wait and have one."""

    async def remove(self, session_ids: Sequence[SessionId]) -> None:
        """These sessions wait no longer."""
