"""EvictionPoints: what plugins say about takers and their victims.

Takes the plugins of a cycle. Gives who may take, which rows plugins leave, and their order of
queues. Without one that overrides a point of evictions nothing is
asked and nothing is built. A loan that returns is not asked about: its lender was promised it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueUsage
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.extensions import EVICTION_POINTS, EvictableKernel, Extensions, GangView, PluginFailed
from sokovan.scheduling.trace import Code

T = TypeVar("T")

# The point that filters the victims of an action, beside the one of all actions.
_OF_ACTION = {"preempt": ("preemptable",), "reclaim": ("reclaimable",)}
_OF_ALL = "evictable"


class EvictionPoints:
    """The extension points of evictions. Every method raises PluginFailed."""

    def __init__(self, plugins: Extensions, queue_usage: QueueUsage) -> None:
        self._plugins, self._queue_usage = plugins, queue_usage
        self.used = any(plugins.at(point) for point in EVICTION_POINTS)

    def starves(self, pending: PendingSession) -> bool:
        """Whether a session that is below its minimum may take."""
        if not self._plugins.at("session_starving"):
            return True
        gang = GangView(pending.session, "", pending.minimum, pending.have, 0, 0)
        return all(self._plugins.call_all("session_starving", gang))

    def may_reclaim(self, pending: PendingSession) -> bool:
        """Whether the queue of a taker may reclaim for it."""
        if not self._plugins.at("preemptive"):
            return True
        return all(self._plugins.call_all("preemptive", self._queue_usage.view(pending.node), pending.session))

    def left(self, action: str, pending: PendingSession, table: VictimTable, rows: Ints) -> Ints:
        """The rows that every plugin lets a taker evict."""
        for point in (*_OF_ACTION.get(action, ()), _OF_ALL):
            for plugin in self._plugins.at(point):
                victims = [_view(table, row) for row in rows.tolist()]
                first = (pending.session,) if point != _OF_ALL else (pending.session, action)
                kept = self._plugins.call(plugin, point, *first, victims)
                rows = rows[np.array(kept, np.int64)]
        return rows

    def queue_key(self, taker: QueueNode, giver: QueueNode) -> tuple[int, ...]:
        """The place of a queue among those that give to a taker's queue, smallest first."""
        if not self._plugins.at("victim_queue_order"):
            return ()
        views = (self._queue_usage.view(taker), self._queue_usage.view(giver))
        answers = self._plugins.call_all("victim_queue_order", *views)
        return tuple(number for answer in answers for number in answer)


def isolated(call: Callable[[PendingSession], T], pending: PendingSession) -> T | None:
    """Call for one session; a plugin that raises gives it a verdict.

    No other session is affected.
    """
    try:
        return call(pending)
    except PluginFailed as failed:
        pending.reason = PendingReason(Code.PLUGIN_FAILED, str(failed))
        return None


def _view(table: VictimTable, row: int) -> EvictableKernel:
    session = table.sessions[int(table.session[row])]
    return EvictableKernel(session.session, table.kernels[row], session.node.name, table.losses[row] // 1_000_000)
