"""Publishes committed events from the outbox to the bus."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.ports.events import EventBus
from sokovan.ports.storage import Outbox

EVENTS_HINT = "events"
BATCHES = 200


class Publisher:
    """A coordinator without a lease, because publishing twice is harmless."""

    def __init__(self, outbox: Outbox, events: EventBus) -> None:
        self._outbox, self._events = outbox, events

    def tasks(self) -> Sequence[TaskSpec]:
        """Runs soon after a commit, and every second in case a hint was lost."""
        return (TaskSpec("events", self.publish, hints=(EVENTS_HINT,), min_interval_s=0.005, long_cycle_s=1.0),)

    async def publish(self) -> bool:
        """Publish pending events; returns whether there may be more."""
        return await self._outbox.publish_pending(self._events.publish, limit=BATCHES) >= BATCHES

    async def close(self) -> None:
        """Do nothing; there are no resources."""
