"""Checks the invariants of the store while the server runs, and logs violations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sokovan.adapters.sql.store import SqlStore
from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.ports.environment import Telemetry

# The first check comes after the start, which it would delay.
FIRST_AFTER_S = 30.0


class StoreAuditor:
    """A coordinator without a lease, because checking twice is harmless."""

    def __init__(self, store: SqlStore, telemetry: Telemetry, log: Callable[[str], None], *, every_s: float) -> None:
        self._store, self._telemetry, self._log, self._every_s = store, telemetry, log, every_s
        self._runs = 0

    def tasks(self) -> Sequence[TaskSpec]:
        """Runs at intervals, in one read transaction."""
        return (TaskSpec("audit", self._run, long_cycle_s=self._every_s, due=self._due_s),)

    async def _run(self) -> bool:
        self._runs += 1
        return await self.check() if self._runs > 1 else False

    def _due_s(self) -> float | None:
        return FIRST_AFTER_S if self._runs == 1 else None

    async def check(self) -> bool:
        """Check all invariants; returns False, because there is never more to do at once."""
        from sokovan.adapters.sql.invariants.auditor import audit  # noqa: PLC0415  # a start does not need it

        for finding in await audit(self._store):
            self._telemetry.gauge("invariant_violations", finding.count, invariant=finding.invariant.id)
            if not finding.holds:
                self._log(
                    f"invariant {finding.invariant.id} is violated; see: sokovan audit --only {finding.invariant.id}"
                )
        return False

    async def close(self) -> None:
        """Do nothing; there are no resources."""
