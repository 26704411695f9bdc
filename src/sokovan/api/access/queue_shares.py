"""Rejects queues whose shares do not fit in those above them."""

from __future__ import annotations

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.access.known_slots import permit_known_slots
from sokovan.domain.cluster.queue import Queue, QueueTree
from sokovan.ports.storage import UnitOfWork


async def permit_shares(
    unit: UnitOfWork, principal: AuthenticatedPrincipal, queue: Queue | None, before: Queue | None
) -> None:
    """Reject unknown slots, and shares beyond those above. Raises InvalidInput."""
    await permit_known_slots(unit, principal, queue, before)
    if queue is not None:
        others = [one for one in await unit.catalog.all(Queue) if one.name != queue.name]
        QueueTree([*others, queue]).require_shares_of(queue.name)
