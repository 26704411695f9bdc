"""Checks the laws of the store while the server runs, and tells what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sokovan.adapters.sql.invariants.auditor import audit
from sokovan.adapters.sql.store import SqlStore
from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.ports.environment import Telemetry

EVERY_S = 300.0


class StoreAuditor:
    """A coordinator without a lease: looking twice does no harm."""

    def __init__(self, store: SqlStore, telemetry: Telemetry, tell: Callable[[str], None]) -> None:
        self._store, self._telemetry, self._tell = store, telemetry, tell

    def tasks(self) -> Sequence[TaskSpec]:
        """Now and then; the work is the database's, in one reading transaction."""
        return (TaskSpec("audit", self.look, long_cycle_s=EVERY_S),)

    async def look(self) -> bool:
        """Check every law; there is never more to do at once."""
        for finding in await audit(self._store):
            self._telemetry.gauge("invariant_violations", finding.count, invariant=finding.invariant.id)
            if not finding.holds:
                self._tell(f"law {finding.invariant.id} is broken; see: sokovan audit --only {finding.invariant.id}")
        return False

    async def close(self) -> None:
        """There is nothing to let go of."""
