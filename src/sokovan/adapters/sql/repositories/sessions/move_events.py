"""The events of a transaction's moves; of kernels that move alike, one for many.

A large gang moves each of its kernels six times. As many events keep the outbox, the bus
and the streams of all users busy, and overflow what these keep for a reader that is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sokovan.domain.events import Event, KernelsMoved
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger

# Kernels that move alike, from which on an event names many.
MANY = 16
# Kernels that one event names: messages between managers are of less than 8 KB.
NAMED_MAX = 100


class KernelMovement(NamedTuple):
    """Kernels of a session that moved alike, one after the other."""

    session_id: SessionId
    before: KernelStatus
    after: KernelStatus
    trigger: KernelTrigger
    kernels: list[KernelId]


class MoveEvents:
    """Collects the moves of one transaction, in their order."""

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms
        self._moves: list[Event | KernelMovement] = []

    def add(self, event: Event) -> None:
        """Add the event of a session."""
        self._moves.append(event)

    def add_kernel(
        self,
        session_id: SessionId,
        kernel_id: KernelId,
        *,
        before: KernelStatus,
        after: KernelStatus,
        trigger: KernelTrigger,
    ) -> None:
        """Add the move of a kernel."""
        last = self._moves[-1] if self._moves else None
        alike = (session_id, before, after, trigger)
        if isinstance(last, KernelMovement) and last[:4] == alike:
            last.kernels.append(kernel_id)
        else:
            self._moves.append(KernelMovement(*alike, [kernel_id]))

    def events(self) -> Iterator[Event]:
        """The events of all moves."""
        for move in self._moves:
            if not isinstance(move, KernelMovement):
                yield move
            elif len(move.kernels) < MANY:
                yield from self._of(move, move.kernels).each()
            else:
                for start in range(0, len(move.kernels), NAMED_MAX):
                    yield self._of(move, move.kernels[start : start + NAMED_MAX])

    def _of(self, move: KernelMovement, kernels: list[KernelId]) -> KernelsMoved:
        return KernelsMoved(
            at_ms=self._at_ms,
            kernel_ids=tuple(kernels),
            session_id=move.session_id,
            before=move.before,
            after=move.after,
            trigger=move.trigger,
        )
