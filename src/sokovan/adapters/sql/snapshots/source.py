"""Scheduling snapshots, cached in memory and refreshed by changed rows.

Every row that affects scheduling has the stamp of the transaction that last wrote
it. A refresh reads only rows with stamps that were not settled at the previous one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.agent_rows import read_infos
from sokovan.adapters.sql.repositories.owner_limits import OWNED, policies_by_owner, weights_of
from sokovan.adapters.sql.repositories.sessions.changes import progress
from sokovan.adapters.sql.schema.tables import (
    BOOKINGS,
    CATALOG_MARKS,
    GROUPS,
    OWNER_USAGE,
    PAST_USAGE,
    POLICIES,
    QUEUES,
    RESERVATIONS,
    SCALING_GROUPS,
    TOPOLOGY,
    USERS,
)
from sokovan.adapters.sql.snapshots.carried_state import CatalogMarks, RecordedPlan, read_carried, record_plan
from sokovan.adapters.sql.snapshots.changed_sessions import ChangedSessions
from sokovan.adapters.sql.snapshots.system_view import SystemView
from sokovan.adapters.sql.store import SqlStore
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology_rules import Topology
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.ports.storage import Fence
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import Booking, SystemSnapshot

_MARKS = sa.select(CATALOG_MARKS)
_USAGE = sa.select(OWNER_USAGE).where(OWNER_USAGE.c.stamp >= sa.bindparam("since"))
_PAST_USAGE = sa.select(PAST_USAGE).where(PAST_USAGE.c.stamp >= sa.bindparam("since"))


class SqlSnapshots:
    """The snapshot source on SQL."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._view = SystemView()
        self._since: int | None = None
        # Sessions may be behind the rest.
        self._sessions_since: int | None = None
        self._marks: dict[str, int] = {}
        self._sessions = ChangedSessions()
        self.is_behind = False
        self.bookings: Sequence[Booking] = ()

    async def refresh(self, *, sessions: bool = True, at_once: int | None = None) -> bool:
        """See the port."""
        # The first refresh reads everything; later ones read few rows, unless a large session has changed.
        is_long = self._since is None or (sessions and self._view.digests)
        read = self._store.read_long if is_long else self._store.read
        changed = await read(
            lambda unit: self._refresh(unit, sessions=sessions or self._since is None, at_once=at_once)
        )
        self.is_behind = self._sessions.is_behind
        return changed

    async def snapshot(self, scaling_group: ScalingGroupName) -> SystemSnapshot:
        """See the port."""
        return self._view.snapshot(scaling_group)

    def scaling_groups(self) -> Sequence[ScalingGroupName]:
        """See the port."""
        return sorted(self._view.scaling_groups)

    def groups(self) -> Sequence[ScalingGroup]:
        """See the port."""
        return [self._view.scaling_groups[name] for name in self.scaling_groups()]

    def agents(self) -> Mapping[AgentId, AgentInfo]:
        """See the port."""
        return dict(self._view.agents)

    def incarnation(self, agent_id: AgentId) -> int | None:
        """See the port."""
        agent = self._view.agents.get(agent_id)
        return None if agent is None else agent.incarnation

    @property
    def marks(self) -> CatalogMarks:
        """See the port."""
        return CatalogMarks(self._marks.get(TOPOLOGY.name, 0), self._marks.get(BOOKINGS.name, 0))

    async def record_plan(
        self, scaling_group: ScalingGroupName, plan: SchedulingPlan, *, fence: Fence | None = None
    ) -> RecordedPlan:
        """See the port."""
        before = self._view.carried(scaling_group)
        if not plan.evictions and not plan.moves and before.after(plan).is_like(before):
            return RecordedPlan()

        recorded, after = await self._store.run_sql(
            lambda unit: record_plan(unit, scaling_group, before, plan), fence=fence
        )
        self._view.carry(scaling_group, after)
        return recorded

    async def _refresh(self, unit: SqlUnitOfWork, *, sessions: bool, at_once: int | None) -> bool:
        transaction = unit.transaction
        settled, changed = await self._progress(transaction, since=self._sessions_since if sessions else self._since)
        if not changed and not (sessions and self.is_behind):
            self._view.now_ms = transaction.now_ms
            self.bookings = [one for one in self.bookings if one.to_ms > transaction.now_ms]
            return False
        # A failed first load must leave nothing: a later one would miss sessions that ended meanwhile.
        view = SystemView() if self._since is None else self._view
        view.now_ms = transaction.now_ms
        if transaction.postgresql and self._since is not None:
            # Few rows are new, even if the planner's statistics are stale.
            await transaction.execute(sa.text("SET LOCAL enable_seqscan = off"))
        marks = {row.kind: row.stamp for row in await transaction.fetch(_MARKS)}
        await self._refresh_catalog(unit, view, marks)
        if sessions:
            await self._sessions.refresh(transaction, view, since=self._sessions_since, at_once=at_once)
        await self._refresh_agents(transaction, view)
        await self._refresh_usage(transaction, view)
        await self._refresh_past_usage(transaction, view)
        view.changed()
        self.bookings = [one for one in view.bookings if one.to_ms > view.now_ms]
        self._view, self._since, self._marks = view, settled, marks
        self._sessions_since = settled if sessions else self._sessions_since
        return True

    async def _progress(self, transaction: Transaction, *, since: int | None) -> tuple[int, bool]:
        """The stamp for the next refresh, and whether anything changed since a stamp."""
        row = await transaction.first(progress(transaction.postgresql))
        if row is None:
            raise LookupError("a query without a table returns one row")
        return row.settled, since is None or row.latest >= since

    def _new(self) -> dict[str, int]:
        """The parameter for rows that are new: no row has a stamp below 0."""
        return {"since": 0 if self._since is None else self._since}

    async def _refresh_catalog(self, unit: SqlUnitOfWork, view: SystemView, marks: dict[str, int]) -> None:
        def changed(*tables: sa.Table) -> bool:
            return self._since is None or any(marks.get(t.name) != self._marks.get(t.name) for t in tables)

        if changed(SCALING_GROUPS):
            view.set_scaling_groups(await unit.catalog.all(ScalingGroup))
        if changed(QUEUES):
            view.queues = tuple(await unit.catalog.all(Queue))
        if changed(BOOKINGS):
            view.bookings = tuple(await unit.catalog.all(Booking))
        if changed(TOPOLOGY):
            view.hypernodes.set_topology(*await unit.catalog.all(Topology))
        if changed(POLICIES, *OWNED.values()):
            view.limits = await policies_by_owner(unit.transaction)
        if changed(USERS):
            view.weights = await weights_of(unit.transaction, USERS)
        if changed(GROUPS):
            view.group_weights = await weights_of(unit.transaction, GROUPS)
        if changed(RESERVATIONS):
            view.carry_all(await read_carried(unit.transaction))

    async def _refresh_agents(self, transaction: Transaction, view: SystemView) -> None:
        for info in await read_infos(transaction, since=self._since or 0):
            view.put_agent(info)

    async def _refresh_usage(self, transaction: Transaction, view: SystemView) -> None:
        for row in await transaction.fetch(_USAGE, self._new()):
            view.put_usage(row.scope, row.name, row.slot, row.used)

    async def _refresh_past_usage(self, transaction: Transaction, view: SystemView) -> None:
        for row in await transaction.fetch(_PAST_USAGE, self._new()):
            view.put_past_usage(row)
