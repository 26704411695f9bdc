"""What sessions wait for, as it was said last: a place, or an image."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.api.mapping.sessions import session_view
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import SessionRecord
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.sessions import SessionView

# A list tells the progress of so many images; each costs a question.
PROGRESS_MAX = 20


async def viewed(unit: UnitOfWork, sessions: Sequence[SessionRecord]) -> list[SessionView]:
    """Sessions, those that wait with the last word on them."""
    waiting = [one.session_id for one in sessions if one.status is SessionStatus.PENDING]
    words = dict(await unit.verdicts.of(waiting)) if waiting else {}
    pulling = [one.session_id for one in sessions if one.status is SessionStatus.PULLING]
    for session_id in pulling[:PROGRESS_MAX]:
        words |= await _progress(unit, session_id)
    return [session_view(one, words.get(one.session_id)) for one in sessions]


async def _progress(unit: UnitOfWork, session_id: SessionId) -> dict[SessionId, StoredVerdict]:
    """How far its images are, as its story says; nothing if nobody has said so yet."""
    _, last = (await unit.sessions.history(session_id))[-1]
    if last.before != last.after:
        return {}
    return {session_id: StoredVerdict(session_id, last.change.code, last.change.detail, "")}
