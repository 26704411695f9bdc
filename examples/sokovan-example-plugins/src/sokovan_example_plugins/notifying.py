"""An allocator that publishes a notice for every allocation, through the outbox."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.domain.events import Event, NoticeIssued
from sokovan.ports.allocation import AllocationResult


class NotifyingAllocator(RepositoryAllocator):
    """Issues a notice for each session that it allocates.

    The notice is stored in the transaction of the allocation, so it is published if
    and only if the allocation is committed. Consumers that send mail or count metrics
    must be idempotent: a notice may arrive twice.
    """

    name = "notifying"

    def notices(self, results: Sequence[AllocationResult], now_ms: int) -> Sequence[Event]:
        """One notice per session: how many kernels, on which agents."""
        return [
            NoticeIssued(
                at_ms=now_ms,
                topic="allocation",
                about=result.session_id,
                body={"kernels": str(len(result.kernels)), "agents": " ".join(sorted(result.agent_allocations))},
            )
            for result in results
        ]
