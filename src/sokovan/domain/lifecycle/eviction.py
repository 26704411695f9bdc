"""Evictions of a session: checkpoints, notices, receipts, waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.retry import RetryDelay

# The reasons in the history of a session that others were evicted for: at the notice, and at the end.
TOOK_ROOM = "took-room"
ROOM_FREED = "room-freed"
# The reasons in the history of the evicted: the notice, and an eviction that was withdrawn before it.
NOTICE_GIVEN = "notice-given"
EVICTION_WITHDRAWN = "eviction-withdrawn"
# The action whose evictions are moves: the evicted have another place already.
CONSOLIDATE = "consolidate"
# The receipts that a session keeps; the oldest are dropped.
RECEIPTS_MAX = 32
# Evictions of the last day make the next wait longer.
_COUNTED_MS = 24 * 3600 * 1000
_WAIT = RetryDelay(30_000, 600_000)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A report of a kernel that its work is saved, at which step if it says so.

    `done`: nothing is left to do, so that the session does not wait again after an eviction.
    """

    at_ms: int
    step: int | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class EvictionReceipt:
    """One eviction: what it took from a session, for whom, and what was lost.

    `number` counts the evictions of the session. `kernels` were taken, the whole gang if
    `whole`; they used `slots` thousandths of accelerators, or of cpu where there were none.
    Work since `saved_ms` was lost: since the start, or the last checkpoint if one was
    `reported`, which was of `step`, or the last save of a session that `saves_every_s`.
    `evict_at_ms` is the end of the grace period, `ended_ms` the proof of the end. `completed`:
    a kernel had ended by itself before the notice, and the session with it, so that nothing was
    lost. `ran_since_ms` is when a session that waits again after its end began to run; None if
    it does not, or if kernels of it were starting. `noticed_ms` is when its kernels were about
    to get their notice: before, it can be spared. `exits` are the codes of kernels that had
    ended by themselves before it, and are gone.
    """

    number: int
    attempt: int
    at_ms: int
    for_session: SessionId
    for_user: str
    action: str
    kernels: int
    whole: bool
    slots: int
    saved_ms: int
    reported: bool
    evict_at_ms: int
    ended_ms: int | None = None
    step: int | None = None
    completed: bool = False
    ran_since_ms: int | None = None
    noticed_ms: int | None = None
    saves_every_s: int | None = None
    exits: tuple[tuple[str, int], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether kernels of it have not ended yet."""
        return self.ended_ms is None

    @property
    def is_move(self) -> bool:
        """Whether the session starts again elsewhere at once."""
        return self.action == CONSOLIDATE

    @property
    def may_be_withdrawn(self) -> bool:
        """Whether its kernels know nothing of it yet, and can run on."""
        return self.is_open and self.noticed_ms is None and self.ran_since_ms is not None

    @property
    def lost_s(self) -> int:
        """The lost work in slot seconds; until the end, what would be lost at its notice."""
        if self.completed:
            return 0
        end_ms = self.at_ms if self.ended_ms is None else self.ended_ms
        return self.slots * max(0, end_ms - self.saved_ms) // 1_000_000

    def ended(self, at_ms: int, checkpoint: Checkpoint | None) -> EvictionReceipt:
        """The receipt after the end of its kernels, with the last checkpoint."""
        if checkpoint is None or checkpoint.at_ms < self.saved_ms:
            return replace(self, ended_ms=at_ms)
        saved_ms = min(checkpoint.at_ms, at_ms)
        return replace(self, ended_ms=at_ms, saved_ms=saved_ms, reported=True, step=checkpoint.step)

    def since(self) -> str:
        """Since when work was lost, in words."""
        if self.completed:
            return "its own end, before the notice,"
        if not self.reported and self.saves_every_s is not None:
            return f"its last save, as it saves every {self.saves_every_s} s,"
        if not self.reported:
            return "the start, as it reported no checkpoint,"
        return "the last checkpoint" if self.step is None else f"the checkpoint of step {self.step}"

    def notice(self, *, user: str, returns: bool) -> dict[str, object]:
        """The notice for the kernels of a user: reason, taker, end of the grace period.

        `returns`: the session waits again if it has to go as a whole.
        """
        return {
            "reason": self.action,
            "evict_at": self.evict_at_ms / 1000,
            "for": self.for_session if self.for_user == user else "a session of another user",
            "kernels": self.kernels,
            "whole": self.whole,
            "then": "shrink" if not self.whole else "requeue" if returns or self.is_move else "end",
        }


def waits_until_ms(evictions: Sequence[EvictionReceipt]) -> int:
    """When a session that was evicted may be placed again; 0 if it never was.

    The wait doubles with each eviction of the last day.
    """
    counted = recent(evictions)
    return counted[-1].at_ms + _WAIT.delay_ms(len(counted)) if counted else 0


def recent(evictions: Sequence[EvictionReceipt]) -> Sequence[EvictionReceipt]:
    """The evictions of the day before the last one, without moves."""
    taken = [one for one in evictions if not one.is_move]
    last_ms = taken[-1].at_ms if taken else 0
    return [one for one in taken if last_ms - one.at_ms < _COUNTED_MS]


def kernels_text(count: int) -> str:
    """A number of kernels in words."""
    return "1 kernel" if count == 1 else f"{count} kernels"


def named_to(reader: str, *, user: str, session_id: str, name: str = "") -> str:
    """A session in what a user reads, who knows only sessions of their own."""
    return f"session {name or session_id}" if user == reader else "a session of another user"
