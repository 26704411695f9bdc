"""Checks the invariants of the store while the server runs, and logs violations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sokovan.adapters.sql.invariants.auditor import audit
from sokovan.adapters.sql.store import SqlStore
from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.ports.environment import Telemetry


class StoreAuditor:
    """A coordinator without a lease, because checking twice is harmless."""

    def __init__(self, store: SqlStore, telemetry: Telemetry, log: Callable[[str], None], *, every_s: float) -> None:
        self._store, self._telemetry, self._log, self._every_s = store, telemetry, log, every_s

    def tasks(self) -> Sequence[TaskSpec]:
        """Runs at intervals, in one read transaction."""
        return (TaskSpec("audit", self.check, long_cycle_s=self._every_s),)

    async def check(self) -> bool:
        """Check all invariants; returns False, because there is never more to do at once."""
        for finding in await audit(self._store):
            self._telemetry.gauge("invariant_violations", finding.count, invariant=finding.invariant.id)
            if not finding.holds:
                self._log(
                    f"invariant {finding.invariant.id} is violated; see: sokovan audit --only {finding.invariant.id}"
                )
        return False

    async def close(self) -> None:
        """Do nothing; there are no resources."""
