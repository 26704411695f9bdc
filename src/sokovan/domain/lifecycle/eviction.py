"""Evictions of a session: checkpoints, notices, receipts, waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.durations import duration_text
from sokovan.domain.lifecycle.retry import RetryDelay
from sokovan.domain.lifecycle.session import SessionStatus

# The reasons in the history of a session that others were evicted for: at the notice, and at the end.
TOOK_ROOM = "took-room"
ROOM_FREED = "room-freed"
# Notes that are about one victim each: a further one does not replace the one before.
TAKER_NOTES = frozenset({TOOK_ROOM, ROOM_FREED})
# The reasons in the history of the evicted: the notice, and an eviction that was withdrawn before it.
NOTICE_GIVEN = "notice-given"
EVICTION_WITHDRAWN = "eviction-withdrawn"
# The actions that evict. Evictions by CONSOLIDATE are moves: the evicted have another place already.
PREEMPT, RECLAIM, CONSOLIDATE = "preempt", "reclaim", "consolidate"
# The action that evicts for a booking instead of a session, with the profile's actions or without.
BOOKING = "booking"
# From the decision to evict for a booking until the notice is given, and from the end to its proof.
BOOKING_LEAD_MS = 5_000
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


# The rules by which kernels may be evicted: lower priority, a queue above its share, a loan that returns, a move,
# a booking of their agents.
RULES = {
    "priority": "of lower priority",
    "share": "of a queue above its share",
    "loan": "on loan",
    "move": "movable",
    BOOKING: "on booked agents",
}


@dataclass(frozen=True, slots=True)
class EvictionCost:
    """The costs of a set of victims, in the order in which sets are compared.

    The set with the smallest costs is evicted.
    `only_loans`: all are loans of the taker's queue. `priority` and `kernel_priority` are the
    highest of the victims. The lost work is in whole slot minutes.
    """

    only_loans: bool
    whole_gangs: int
    queue_distance: int
    queue_priority: int
    priority: int
    kernel_priority: int
    lost_slot_minutes: int
    kernels: int

    def sentence(self) -> str:
        """The costs as a list; queues are named only where they differ from the taker's."""
        gangs = "no whole gang" if not self.whole_gangs else f"{self.whole_gangs} whole gang{_s(self.whole_gangs)}"
        minutes = f"{self.lost_slot_minutes} slot minute{_s(self.lost_slot_minutes)} lost"
        queue = f"queue distance {self.queue_distance}, queue priority {self.queue_priority}"
        parts = (
            "loans only" if self.only_loans else "",
            gangs,
            queue if self.queue_distance else "",
            f"priority {self.priority}",
            f"kernel priority {self.kernel_priority}" if self.kernel_priority else "",
            minutes,
            kernels_text(self.kernels),
        )
        return ", ".join(part for part in parts if part)


def choice_text(rule: str, cost: EvictionCost | None, runner_up: EvictionCost | None) -> str:
    """Why a set was chosen: the rule, its cost, and that of the next best.

    Empty if the cost is unknown.
    """
    if cost is None:
        return ""
    second = f"; the next best: {runner_up.sentence()}" if runner_up is not None else ""
    return f"chosen ({RULES.get(rule, rule)}) by cost: {cost.sentence()}{second}"


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
    ended by themselves before it, and are gone. `for_name` is the name of `for_session`.
    `rule` is that by which its kernels could be evicted; `cost` is that of all victims of the
    taker, `runner_up` that of the next best set, if one was compared. Those of `for_booking` are for
    that booking, and for no session.
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
    for_name: str = ""
    rule: str = ""
    cost: EvictionCost | None = None
    runner_up: EvictionCost | None = None
    for_booking: str = ""

    def taker_named_to(self, reader: str) -> str:
        """The session or booking for which it was; empty if it is another user's."""
        if self.for_booking:
            return f"booking {self.for_booking}"
        return (self.for_name or self.for_session) if self.for_user == reader else ""

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
            return f"its last save, as it saves every {duration_text(self.saves_every_s)},"
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
            "for": self._taker_in_notice(user),
            "kernels": self.kernels,
            "whole": self.whole,
            "then": "shrink" if not self.whole else "requeue" if returns or self.is_move else "end",
        }

    def _taker_in_notice(self, user: str) -> str:
        if self.for_booking:
            return f"booking {self.for_booking}"
        return self.for_session if self.for_user == user else "a session of another user"


class TakerState(NamedTuple):
    """Whether a session that others were evicted for still waits."""

    status: str
    scheduled_ms: int | None
    ended_ms: int | None


# Of a booking that was removed, as of a session that was withdrawn.
BOOKING_REMOVED = TakerState(SessionStatus.CANCELLED, None, None)


def room_back_ms(evictions: Sequence[EvictionReceipt], taker: TakerState | None) -> int | None:
    """When the room of an evicted session was free that its taker did not need.

    The `taker` of its last eviction was withdrawn, or placed elsewhere before the room was free. None if it took the
    room, or waits for it; and while the evicted kernels end.
    """
    counted = recent(evictions)
    freed_ms = counted[-1].ended_ms if counted else None
    if taker is None or freed_ms is None:
        return None
    if taker.status == SessionStatus.CANCELLED:
        return max(freed_ms, taker.ended_ms or 0)
    return freed_ms if taker.scheduled_ms is not None and taker.scheduled_ms < freed_ms else None


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


def notice_ms(grace_ms: int, return_s: int | None) -> int:
    """The time from a notice to the end: the grace period, or what a lender waits."""
    return grace_ms if return_s is None else min(grace_ms, return_s * 1000)


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def kernels_text(count: int) -> str:
    """A number of kernels in words."""
    return "1 kernel" if count == 1 else f"{count} kernels"


def named_to(reader: str, *, user: str, session_id: str, name: str = "") -> str:
    """A session in what a user reads, who knows only sessions of their own."""
    return f"session {name or session_id}" if user == reader else "a session of another user"
