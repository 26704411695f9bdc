"""Checks of bookings against sessions on agents, and against known owners."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sokovan.domain.cluster.booking import AgentUse, Booking
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.owners.tenancy import Group, User
from sokovan.orchestrator.sessions.explain.booked_sessions import live_sessions, uses_of
from sokovan.ports.storage import UnitOfWork


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


async def agent_uses(unit: UnitOfWork, agents: Collection[str] | None = None, *, besides: str = "") -> list[AgentUse]:
    """The uses of agents by sessions, and by when each has ended, by itself or by an eviction that begins now.

    Of all agents by default, without evictions. Sessions of the booking `besides` are left out.
    """
    return [
        use
        async for session in live_sessions(unit)
        if not besides or session.spec.booking != besides
        for use in uses_of(session, agents, unit.now_ms)
    ]
