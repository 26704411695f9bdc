"""Resolves an id, name or prefix to the session or array that it refers to."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.arrays import is_session_name
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.records import ArrayRecord, SessionSummary
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork


async def sessions_or_arrays(
    unit: UnitOfWork, text: str, scope: SessionFilter, *, kernels_max: int = 0
) -> tuple[Sequence[SessionSummary], Sequence[ArrayRecord]]:
    """The sessions or arrays that a text refers to; several if ambiguous.

    A full id or name is preferred to a prefix, one that has not ended to one that has,
    and of two that have ended the newer one. Sessions have their first `kernels_max` kernels.
    """
    # Invalid names are not looked up: some databases reject such a text.
    if not is_session_name(text):
        return (), ()
    sessions = await unit.sessions.named(text, scope, kernels_max=kernels_max)
    if sessions and (sessions[0].session_id == text or (_exact(sessions, text) and _lives(sessions[0]))):
        return sessions, ()
    arrays = await unit.arrays.named(text, scope)
    if not arrays or not sessions:
        return sessions, arrays
    is_exact = text in {arrays[0].name, arrays[0].array_id}
    if not _exact(sessions, text):
        # Two prefixes are ambiguous: sessions and arrays together.
        return ((), arrays) if is_exact else (sessions, arrays)
    is_older = sessions[0].place < arrays[0].place
    return ((), arrays) if is_exact and is_older else (sessions, ())


def _exact(sessions: Sequence[SessionSummary], text: str) -> bool:
    return sessions[0].spec.name == text


def _lives(session: SessionSummary) -> bool:
    return session.status not in SESSION.terminal
