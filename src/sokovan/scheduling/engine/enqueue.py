"""The action *enqueue*: admits sessions to the cycle, queue by queue.

Takes pending sessions. Gives a PendingReason to every one that is not admitted. The
best queue is popped, one of its sessions is checked, and the queue is pushed back;
SYSTEM sessions come before all others. A session is refused if its minimum exceeds
what its queue, or one above it, has left of a limit, or if a plugin objects. What is
admitted counts as usage of its queue for the order and for plugins until the action
ends. It does not count against limits: a session that is admitted may find no agents,
and must not block the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sokovan.domain.session import SessionType
from sokovan.scheduling.engine.admission import SessionAdmission
from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession
from sokovan.scheduling.engine.queue_order import WaitingSessions, serve_by_queue
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueRefusal, QueueUsage
from sokovan.scheduling.extensions import Extensions, PluginFailed
from sokovan.scheduling.trace import Code


class LimitedSlot(NamedTuple):
    """A slot of which a queue may use less than the cluster has, before the action."""

    queue: str
    column: int
    used: int
    limit: int


class Enqueue:
    """Admits the sessions of one cycle."""

    def __init__(
        self,
        queue_usage: QueueUsage,
        admission: SessionAdmission,
        extensions: Extensions,
        new_queue: Callable[[], WaitingSessions],
    ) -> None:
        self._queue_usage, self._admission, self._extensions = queue_usage, admission, extensions
        self._new_queue = new_queue
        self._has_plugins = bool(extensions.at("session_enqueueable") or extensions.at("session_enqueued"))
        self._limited: dict[str, list[LimitedSlot]] = {}

    def run(self, sessions: Iterable[PendingSession]) -> None:
        """Check every session that has no running kernel; the others are admitted already."""
        waiting = [p for p in sessions if p.reason is None and not p.agents and self._concerns(p.node)]
        system = [pending for pending in waiting if pending.session.session_type is SessionType.SYSTEM]
        others = [pending for pending in waiting if pending.session.session_type is not SessionType.SYSTEM]
        with _tentative_usage(pending.node for pending in waiting):
            # As in the action allocate, whatever their queue.
            for first in (system, others):
                if first:
                    serve_by_queue(self._queue_usage, first, self._new_queue, self._serve_queue)

    def _concerns(self, node: QueueNode) -> bool:
        """Whether a session of this queue may be refused at all."""
        if node.name not in self._limited:
            self._limited[node.name] = [
                LimitedSlot(queue.name, column, queue.allocated[column], queue.limit[column])
                for queue in node.limiting_queues
                for column, total in enumerate(self._queue_usage.total)
                if queue.limit[column] < total
            ]
        return self._has_plugins or bool(self._limited[node.name])

    def _serve_queue(self, node: QueueNode, waiting: WaitingSessions) -> bool:
        """Check the next session of a queue; False when it has none left."""
        pending = waiting.pop()
        if pending is None:
            return False
        refusal = self._over_limit(node, pending)
        if refusal is None and not self._has_plugins:
            return True
        try:
            # One that validators refuse is left to the other actions, which give the reason; it counts nowhere.
            if self._admission.objection(pending) is None:
                pending.reason = refusal or self._plugin_objection(pending)
        except PluginFailed as failed:
            pending.reason = PendingReason(Code.PLUGIN_FAILED, str(failed))
        return True

    def _over_limit(self, node: QueueNode, pending: PendingSession) -> PendingReason | None:
        """Why the limits of the queues exclude the session whatever else starts, if so."""
        for queue, column, used, limit in self._limited[node.name]:
            least = _least(pending, column)
            if least and used + least > limit:
                slot = self._queue_usage.slots[column]
                refusal = QueueRefusal(Code.QUEUE_LIMIT, queue, slot, least, used, limit)
                return PendingReason(Code.QUEUE_LIMIT, refusal=refusal)
        return None

    def _plugin_objection(self, pending: PendingSession) -> PendingReason | None:
        """Ask the plugins, and count the session if it is admitted. Raises PluginFailed."""
        usage, node, session = self._queue_usage, pending.node, pending.session
        for answer in self._extensions.call_all("session_enqueueable", session, usage.view(node)):
            if answer is not None:
                return PendingReason(Code.REFUSED_BY_PLUGIN, answer)
        need = max(0, pending.minimum - pending.have)
        for batch in pending.batches:
            count = min(need, len(batch.kernels))
            need -= count
            usage.charge(node, batch.shape.slot_pairs, count)
        self._extensions.call_all("session_enqueued", session, usage.view(node))
        return None


@contextmanager
def _tentative_usage(nodes: Iterable[QueueNode]) -> Iterator[None]:
    """Undo at the end what was charged to these queues and to those above them."""
    queues = {id(queue): queue for node in nodes for queue in node.limiting_queues}
    before = [(queue, queue.allocated[:], queue.share) for queue in queues.values()]
    try:
        yield
    finally:
        for queue, allocated, share in before:
            queue.allocated, queue.share = allocated, share


def _least(pending: PendingSession, column: int) -> int:
    """The least that the session can start with in a slot."""
    amounts = [(dict(batch.shape.slot_pairs).get(column, 0), len(batch.kernels)) for batch in pending.batches]
    need, least = max(0, pending.minimum - pending.have), 0
    for amount, kernels in sorted(amounts):
        count = min(need, kernels)
        need -= count
        least += amount * count
    return least
