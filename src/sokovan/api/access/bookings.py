"""Checks of bookings against sessions on agents, and against known owners."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from sokovan.domain.cluster.booking import AgentUse, Booking
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.owners.tenancy import Group, User
from sokovan.domain.records import SessionRecord
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork

_PAGE = 500
_LIVE = tuple(status for status in SessionStatus if status not in SESSION.terminal)


async def require_known_owners(unit: UnitOfWork, booking: Booking, before: Booking | None) -> None:
    """Raise ObjectNotFound for an added user, group or queue that does not exist."""
    kept = set(_permitted(before)) if before is not None else set()
    added = [one for one in _permitted(booking) if one not in kept]
    for (kind, name), found in zip(added, await unit.catalog.find(*added), strict=True):
        if found is None:
            raise ObjectNotFound(what=kind.__name__.lower(), name=name)


def _permitted(booking: Booking) -> Iterator[tuple[type[User | Group | Queue], str]]:
    for kind, names in ((User, booking.users), (Group, booking.groups), (Queue, booking.queues)):
        yield from ((kind, name) for name in names)


async def agent_uses(unit: UnitOfWork) -> AsyncIterator[AgentUse]:
    """The sessions on agents, page by page."""
    after: int | None = None
    while page := await unit.sessions.page(SessionFilter(statuses=_LIVE), limit=_PAGE, after=after):
        for session in page:
            for use in _uses_of(session, unit.now_ms):
                yield use
        after = page[-1].place


def _uses_of(session: SessionRecord, now_ms: int) -> Iterator[AgentUse]:
    limit_s, running = session.spec.time_limit_s, session.status is SessionStatus.RUNNING
    since_ms = session.since_ms if running else now_ms
    leaves = session.status is SessionStatus.TERMINATING
    ends_ms = None if limit_s is None else since_ms + (limit_s + session.spec.stop_grace_s) * 1000
    if leaves:
        ends_ms = session.since_ms + session.spec.stop_grace_s * 1000
    for kernel in session.kernels:
        if kernel.status in HOLDS_SLOTS and kernel.agent_id is not None:
            yield AgentUse(str(kernel.agent_id), session.spec.name or str(session.session_id), ends_ms)
