"""Tasks on the store while the server runs: its audit, transactions that hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import ModuleType

from sokovan.adapters.sql.connections.silent_clients import SilentClients
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.store import SqlStore
from sokovan.orchestrator.periodic_tasks import TaskSpec
from sokovan.ports.environment import Telemetry

# The first check comes after the start, which it would delay.
FIRST_AFTER_S = 30.0
# Between two looks for silent transactions; the third look in a row ends one.
LOOK_S = 2.0


def _auditor() -> ModuleType:
    from sokovan.adapters.sql.invariants import auditor  # noqa: PLC0415  # a start does not need it

    return auditor


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
        # Imported in a thread, since it builds all statements, which would hold up the event loop.
        auditor = await asyncio.to_thread(_auditor)
        for finding in await auditor.audit(self._store):
            self._telemetry.gauge("invariant_violations", finding.count, invariant=finding.invariant.id)
            if not finding.holds:
                self._log(
                    f"invariant {finding.invariant.id} is violated; see: sokovan audit --only {finding.invariant.id}"
                )
        return False

    async def close(self) -> None:
        """Do nothing; there are no resources."""


class SilentTransactions:
    """Ends transactions of managers that hang while others wait for their locks.

    Without a lease, which may be what they wait for. `database` has one connection, for
    this alone.
    """

    def __init__(self, database: Database, telemetry: Telemetry, log: Callable[[str], None]) -> None:
        self._database, self._telemetry, self._log = database, telemetry, log
        self._clients = SilentClients(database.reading)

    def tasks(self) -> Sequence[TaskSpec]:
        """Looks at short intervals."""
        return (TaskSpec("silent-transactions", self.look, long_cycle_s=LOOK_S),)

    async def look(self) -> bool:
        """Look once; returns False: there is never more to do at once."""
        ended = await self._clients.look()
        if ended:
            self._telemetry.count("silent_transactions_ended_total", ended)
            self._log(f"ended {ended} transactions of a manager that hangs: it was silent, and others waited for it")
        return False

    async def close(self) -> None:
        """Close the connection."""
        await self._database.close()
