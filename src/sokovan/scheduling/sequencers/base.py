"""What a sequencer is: it puts waiting sessions in order.

Priority bands come above every sequencer; it orders sessions of equal priority.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.engine.usage.owner_ledger import OwnerLedger
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot


@dataclass(frozen=True, slots=True)
class SequencingContext:
    """What a sequencer may look at: snapshot, cluster size, running usage."""

    snapshot: SystemSnapshot
    capacity: ResourceSlot
    ledger: OwnerLedger


class WorkloadSequencer(ABC):
    """Orders waiting sessions."""

    name: ClassVar[str] = ""

    @abstractmethod
    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """The sessions, first come first. Called once per cycle."""

    def lane(self, session: SessionWorkload) -> str:
        """Sessions of one lane keep their order; lanes compete by `standing`."""
        del session
        return ""

    def standing(self, session: SessionWorkload, context: SequencingContext) -> int:
        """Where a lane stands by now, smallest first; asked again after every placement."""
        del session, context
        return 0


def by_age(sessions: Sequence[SessionWorkload]) -> list[SessionWorkload]:
    """Oldest first; sessions of one instant by id."""
    return sorted(sessions, key=lambda session: (session.submitted, session.session_id))
