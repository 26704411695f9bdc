"""Base class of sequencers, which order waiting sessions of equal priority."""

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
    """The inputs of a sequencer: snapshot, slots of the scaling group, current usage."""

    snapshot: SystemSnapshot
    capacity: ResourceSlot
    ledger: OwnerLedger


class WorkloadSequencer(ABC):
    """Orders waiting sessions."""

    name: ClassVar[str] = ""

    @abstractmethod
    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """The sessions in order, first to last. Called once per cycle."""

    def fairness_key(self, session: SessionWorkload) -> str:
        """Sessions with one key keep their order; keys compete by `share`."""
        del session
        return ""

    def share(self, session: SessionWorkload, context: SequencingContext) -> int:
        """The current share of the session's key; the smallest goes first."""
        del session, context
        return 0


def by_age(sessions: Sequence[SessionWorkload]) -> list[SessionWorkload]:
    """Oldest first; sessions of the same time by id."""
    return sorted(sessions, key=lambda session: (session.submitted, session.session_id))
