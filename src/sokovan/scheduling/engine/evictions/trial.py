"""EvictionTrial: proves that a taker fits with a set of victims gone.

Takes a taker and the rows of its victims. Gives a Proof, or None. One Statement evicts the set and places or
reserves the whole minimum of the taker under every rule: predicates, plugins, kernel
places, topology, groups, and the limits of queues and owners, whose usage is asked without
the victims. A trial leaves every number as it was; `commit` keeps them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from sokovan.scheduling.engine.allocate import Allocate
from sokovan.scheduling.engine.backfill import Backfill
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.engine.placement import PlacementAttempt
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.usage.owner_ledger import OwnerAccount, OwnerLedger
from sokovan.scheduling.engine.usage.queue_usage import QueueNode
from sokovan.scheduling.extensions import PluginFailed
from sokovan.scheduling.snapshot import SessionWorkload


class EvictingEngine(NamedTuple):
    """The parts of a cycle that evictions work on."""

    context: CycleContext
    shapes: ShapeTable
    ledger: OwnerLedger
    allocate: Allocate
    backfill: Backfill


class Proof(NamedTuple):
    """A trial that succeeded: the taker's tier, and whether all its room is idle."""

    tier: int
    idle: bool


class UsageTakenOff:
    """The usage of queues and owners without some victims."""

    def __init__(self, context: CycleContext, ledger: OwnerLedger, table: VictimTable, rows: Sequence[int]) -> None:
        self._context = context
        self._nodes: dict[str, tuple[QueueNode, list[int], int, int]] = {}
        self._accounts: dict[int, tuple[OwnerAccount, dict[str, int], int]] = {}
        self._best_effort = None if context.best_effort is None else context.best_effort.saved()
        by_queue: Counter[tuple[int, Shape]] = Counter()
        for number, part in table.by_session(rows).items():
            victim = table.sessions[number]
            shapes = Counter(table.shapes[int(table.shape[row])] for row in part)
            for shape, count in shapes.items():
                by_queue[int(table.queue[part[0]]), shape] += count
            self._take_from_owner(victim.session, shapes, ledger, ends=table.ends(number, part))
        for (queue, shape), count in by_queue.items():
            self._take_from_queue(table.queues[queue], shape, count)

    def _take_from_owner(
        self, session: SessionWorkload, shapes: Counter[Shape], ledger: OwnerLedger, *, ends: bool
    ) -> None:
        if not session.session_type.is_charged:
            return
        entry = ledger.entry(session.owner)
        for account in entry.watched:
            self._accounts.setdefault(id(account), (account, dict(account.used), account.sessions))
        entry.charge([(shape.slots, -count) for shape, count in shapes.items()], sessions=-int(ends))
        bare = sum(count for shape, count in shapes.items() if not shape.slots)
        if bare and self._context.best_effort is not None:
            self._context.best_effort.count(session, -bare)

    def _take_from_queue(self, node: QueueNode, shape: Shape, count: int) -> None:
        for above in node.limiting_queues:
            self._nodes.setdefault(above.name, (above, list(above.allocated), above.share, above.unused_column))
        self._context.queue_usage.charge(node, shape.slot_pairs, -count)

    def restore(self) -> None:
        """Put every amount back as it was."""
        for node, allocated, share, unused_column in self._nodes.values():
            node.allocated[:] = allocated
            node.share, node.unused_column = share, unused_column
        for account, used, sessions in self._accounts.values():
            account.used.clear()
            account.used.update(used)
            account.sessions = sessions
        if self._best_effort is not None and self._context.best_effort is not None:
            self._context.best_effort.restore(self._best_effort)


class EvictionTrial:
    """Tries sets of victims for takers, one at a time."""

    def __init__(self, engine: EvictingEngine, table: VictimTable) -> None:
        self._context, self._allocate, self._backfill = engine.context, engine.allocate, engine.backfill
        self._ledger, self._table = engine.ledger, table

    def fits(self, pending: PendingSession, rows: Sequence[int]) -> Proof | None:
        """Whether the taker fits with these rows gone; everything is as before afterwards."""
        return self._run(pending, rows, keep=False)

    def proofs(self, pending: PendingSession) -> Callable[[Sequence[int]], Proof | None]:
        """`fits` of one taker; as long as nothing is committed, a set is tried once."""
        known: dict[tuple[int, ...], Proof | None] = {}

        def fits(rows: Sequence[int]) -> Proof | None:
            key = tuple(rows)
            if key not in known:
                known[key] = self.fits(pending, rows)
            return known[key]

        return fits

    def commit(self, pending: PendingSession, rows: Sequence[int]) -> Proof | None:
        """Evict the rows and reserve for the taker, if it fits."""
        return self._run(pending, rows, keep=True)

    def _run(self, pending: PendingSession, rows: Sequence[int], *, keep: bool) -> Proof | None:
        context, proof = self._context, None
        with context.tried(pending) as trial, suppress(PluginFailed):
            trial.undo_with(UsageTakenOff(context, self._ledger, self._table, rows).restore)
            statement = trial.statement()
            if self._fill(pending, rows, statement):
                proof = Proof(self._tier(pending, statement), not statement.reserved)
                trial.kept = keep
        if trial.kept:
            # Room only shrinks in a cycle, except by evictions.
            if context.fit_error_cache is not None and rows:
                context.fit_error_cache.clear()
            self._allocate.reserve(pending, statement)
        return proof

    def _fill(self, pending: PendingSession, rows: Sequence[int], statement: Statement) -> bool:
        table = self._table
        for row in rows:
            statement.evict(table.shapes[int(table.shape[row])], int(table.agent[row]))
        if self._allocate.refused(pending):
            return False
        if not pending.batches:
            return self._backfill.fits_later(pending, statement)
        attempt = PlacementAttempt(pending, self._context, statement, released=True)
        return self._allocate.fits(pending, statement, attempt)

    def _tier(self, pending: PendingSession, statement: Statement) -> int:
        """The tier of the HyperNode that the taker comes to, if it has a topology."""
        if pending.session.topology is None:
            return 0
        workspace = self._context.workspace
        agents = [*pending.agents, *(agent for _, _, agent in statement.kernels)]
        domain = workspace.tree.domain_of(workspace.ids[agent] for agent in agents if agent >= 0)
        return 0 if domain is None else workspace.tree.tier(domain)
