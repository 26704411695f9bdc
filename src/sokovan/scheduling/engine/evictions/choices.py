"""The outcome of a search: chosen victims with their cost, or a refusal.

Takes the rules of a taker and the rows that its search chose. Gives evictions to record, or
the counts of protected kernels, kept for later takers: one that was refused fails for lower
priority and for more kernels as well, until something is evicted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.eviction import PREEMPT, RECLAIM, EvictionCost
from sokovan.scheduling.engine.evictions.rules import EvictionRules, Protected
from sokovan.scheduling.engine.evictions.search import Rows
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.plan import Eviction

Memo = tuple[object, ...]


class ChosenVictims(NamedTuple):
    """A set of victims with its cost, and that of the next best set."""

    rows: Rows
    cost: EvictionCost
    runner_up: EvictionCost | None

    @classmethod
    def of(cls, rules: EvictionRules, rows: Rows, runner_up: Rows | None) -> ChosenVictims:
        """The rows that a search chose."""
        return cls(rows, cost_of(rules, rows), None if runner_up is None else cost_of(rules, runner_up))

    def evictions(self, rules: EvictionRules, table: VictimTable, taker: SessionId) -> Iterator[Eviction]:
        """The rows as evictions, in their order."""
        for row in self.rows:
            kernel, session = table.kernels[row], table.sessions[int(table.session[row])].session
            yield Eviction(
                kernel.kernel_id,
                session.session_id,
                table.agent_id(row),
                taker,
                rules.action,
                table.losses[row] // 1_000_000,
                _rule_of(rules, row),
                self.cost,
                self.runner_up,
                table.notice_ms(row),
            )


def cost_of(rules: EvictionRules, rows: Collection[int]) -> EvictionCost:
    """The key of a set as it is shown."""
    key = rules.key(rows)
    return EvictionCost(
        only_loans=not key.not_loans,
        whole_gangs=key.gangs_ended,
        queue_distance=key.distance,
        queue_priority=key.queue_priority,
        priority=key.session_priority,
        kernel_priority=max(key.kernel_priorities, default=0),
        lost_slot_minutes=key.lost_minutes,
        kernels=len(rows),
    )


def _rule_of(rules: EvictionRules, row: int) -> str:
    if rules.recalled[row]:
        return "loan"
    return {PREEMPT: "priority", RECLAIM: "share"}.get(rules.action, "move")


class TakerRefusal(NamedTuple):
    """The kernels that each rule protects from a taker.

    Some of those that started too recently are protected until `until_ms` only. More kernels
    of the taker may be enough for a queue above it to keep its guarantee; where that decided,
    `exact`, the refusal is that of just so many.
    """

    protected: Protected
    until_ms: int | None = None
    exact: bool = False

    @classmethod
    def of(cls, rules: EvictionRules, table: VictimTable, protected: Protected) -> TakerRefusal:
        """The refusal of a taker whose search found nothing."""
        until_ms = None
        if protected.run_time and rules.young is not None:
            until_ms = table.young_until_ms(rules.action, table.session[rules.young])
        return cls(protected, until_ms, rules.met_guarantee)


class _Known(NamedTuple):
    priority: int
    need: int
    refusal: TakerRefusal

    def covers(self, priority: int, need: int) -> bool:
        """Whether a taker of this priority, with so many kernels, is refused as well."""
        return priority <= self.priority and (need == self.need if self.refusal.exact else need >= self.need)


class RefusalCache:
    """The refusals of one cycle since its last eviction."""

    def __init__(self) -> None:
        self._known: dict[Memo, list[_Known]] = {}

    def of(self, memo: Memo, *, priority: int, need: int) -> TakerRefusal | None:
        """The refusal of an earlier taker that covers this one."""
        return next((one.refusal for one in self._known.get(memo, ()) if one.covers(priority, need)), None)

    def put(self, memo: Memo, refusal: TakerRefusal, *, priority: int, need: int) -> None:
        """Keep a refusal instead of those that it covers."""
        new = _Known(priority, need, refusal)
        kept = [one for one in self._known.get(memo, ()) if not new.covers(one.priority, one.need)]
        self._known[memo] = [*kept, new]

    def clear(self) -> None:
        """Forget all, because room and usage have changed."""
        self._known.clear()
