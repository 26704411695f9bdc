"""EvictionRules: who may take from whom, and which set of victims is better.

Takes a starving session (the taker) and the VictimTable. Gives the rows that it may evict,
how many rows each rule protects, whether a set leaves the queues their shares, and the key
by which sets are compared. The smallest key wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.lifecycle.eviction import CONSOLIDATE, PREEMPT, RECLAIM
from sokovan.scheduling.engine.evictions.points import EvictionPoints
from sokovan.scheduling.engine.evictions.queue_columns import QueueColumns, ShareColumns, deserved, distance, relevant
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.usage.queue_usage import CAPACITY, PROPORTION, QueueNode
from sokovan.scheduling.engine.workspace import Flags, Ints
from sokovan.scheduling.extensions import Extensions

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The loss of a set is compared in whole slot minutes.
LOSS_PER_MINUTE = 60_000_000

# The most of every option: beyond any cluster, and in milliseconds far below the end of 64 bits.
OPTION_MAX = 1_000_000_000
OWNER_BUDGET_MAX = 100  # per cent of a user's running kernels
Row = list[int]


@dataclass(frozen=True, slots=True)
class EvictionOptions:
    """The options of the actions that evict.

    So many ancestors of a victim's queue (`ancestor_reclaim_level`) must use more than they
    deserve as well. At most `evictions_per_cycle` kernels are evicted in a cycle. A session
    that reports no checkpoints counts as saved `assumed_checkpoint` seconds ago. A queue that
    gave less than `cool_down` seconds ago takes only if it stays within its share of every
    slot. At most `owner_budget` per cent of a user's running kernels are evicted in an hour.
    Moves may cost `move_cost_max` slot seconds: work that is lost, and `restart_cost` seconds
    for each slot.
    """

    ancestor_reclaim_level: int = 0
    evictions_per_cycle: int = 1024
    assumed_checkpoint: int = 600
    cool_down: int = 300
    owner_budget: int = 50
    move_cost_max: int = 36_000
    restart_cost: int = 60

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= OPTION_MAX:
                # Stored groups may have a larger budget than can be set now.
                most = OWNER_BUDGET_MAX if one.name == "owner_budget" else OPTION_MAX
                problem = f"must be a whole number, 0 to {most}"
                raise InvalidSpec(what="profile", field=one.name, value=value, problem=problem)


class VictimKey(NamedTuple):
    """The costs of a set of victims, in the order in which they are compared."""

    not_loans: int  # 1 if a victim is not a loan from the taker's queue
    gangs_ended: int
    queue_order: tuple[int, ...]  # of plugins; reclaim only
    distance: int
    queue_priority: int
    session_priority: int
    kernel_priorities: tuple[int, ...]
    lost_minutes: int
    reporting: int  # sessions that report checkpoints; those that do not go first among equals


class Protected(NamedTuple):
    """How many running kernels each rule keeps from a taker."""

    priority: int = 0
    not_preemptible: int = 0
    run_time: int = 0
    within_share: int = 0
    beyond_share: int = 0
    cool_down: int = 0
    guarantee: int = 0
    plugin: int = 0
    budget: int = 0
    would_not_fit: int = 0

    def sentence(self, until_ms: int | None = None) -> str:
        """The counts that are not zero, as a list.

        The first that started too recently is protected until a time.
        """
        until = "" if until_ms is None else f" (until {_EPOCH + timedelta(milliseconds=until_ms):%Y-%m-%dT%H:%M:%SZ})"
        texts = {
            "priority": "not of lower priority",
            "not_preemptible": "not preemptible",
            "run_time": f"started too recently{until}",
            "within_share": "within the share of the queue",
            "beyond_share": "only for queues that stay within what they deserve",
            "cool_down": "only for queues that gave nothing lately, or stay within what they deserve of every slot",
            "guarantee": "guaranteed to the queue",
            "plugin": "kept by a plugin",
            "budget": "beyond the number of evictions of a cycle or an owner",
            "would_not_fit": "not enough even if evicted",
        }
        return ", ".join(f"{count} {texts[name]}" for name, count in self._asdict().items() if count)


class _Stages(NamedTuple):
    """Rows that may go at all, those that the taker is entitled to, and those that plugins leave."""

    free: Flags
    entitled: Flags
    chosen: Flags


class EvictionRules:
    """The rules of one action for one taker."""

    def __init__(
        self,
        action: str,
        pending: PendingSession,
        table: VictimTable,
        *,
        levels: int = 0,
        cooling: bool = False,
        points: EvictionPoints | None = None,
    ) -> None:
        self.action, self._pending, self._table, self._queues = action, pending, table, table.queue_usage
        self._levels, self._cooling = levels, cooling
        self._points = points or EvictionPoints(Extensions(), table.queue_usage)
        self._queue_keys: dict[str, tuple[int, ...]] = {}
        self.demand = demand_of(pending)
        self.asked = self._asked()
        # Whether the taker's queue may not reclaim only because it gave lately.
        self.cools_down = cooling and not self.may_take() and any(self._within())
        self._guaranteed = 0
        self._columns = QueueColumns.of(action, pending.node, table)
        self.recalled, self.whole = self._columns.recalled, self._columns.whole
        self._kept_by_plugins = self._over_budget = 0
        self._mask = self._touchable()
        self._chosen = self._stages()
        chosen = self._chosen.chosen
        # Rows that only the minimum run time protects.
        self.young: Flags | None = chosen & self._columns.too_young if self._columns.protects_young else None
        # Whether each row of the table is a candidate, plugins aside, and the rows that are.
        self.is_candidate: Flags = chosen & ~self._columns.too_young if self._columns.protects_young else chosen
        self.candidates: Ints = self.is_candidate.nonzero()[0]
        if self._points.used:
            self.candidates = self._allowed_by_plugins(self.candidates)

    @property
    def has_plugins(self) -> bool:
        """Whether plugins decide about victims: each taker may then get other answers."""
        return self._points.used

    @property
    def order_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Keys of takers that order the same candidates alike.

        The first may be that of many queues, the second is of this one.
        """
        return ("orders", *self._columns.order_key), ("order", self.action, self._pending.node.name)

    @cached_property
    def used(self) -> Ints:
        """The amounts that each queue uses, by column, before anything is taken."""
        return ShareColumns.of(self._table).used()

    def _asked(self) -> Row:
        """The amounts that the taker needs to start, by column."""
        row = [0] * len(self._queues.total)
        for shape, count in self.demand:
            for column, amount in shape.slot_pairs:
                row[column] += amount * count
        return row

    def may_take(self) -> bool:
        """Whether the taker's queue entitles it to reclaim; always for preempt."""
        if self.action != RECLAIM or self._queues.policy == PROPORTION:
            # Under proportion every placement is kept to the deserved share.
            return True
        # A queue that gave lately could take back by another slot than the one it gave.
        return all(self._within()) if self._cooling else any(self._within())

    def _within(self) -> list[bool]:
        """For each slot asked for, whether the taker's queue would stay within what it deserves."""
        node = self._pending.node
        return [
            node.deserves[column] and node.allocated[column] + amount <= node.deserved[column]
            for column, amount in enumerate(self.asked)
            if amount
        ]

    def _stages(self) -> _Stages:
        """The rows that may be evicted one by one, as far as plugins allow it, and those before each rule."""
        columns, table = self._columns, self._table
        if self.action == CONSOLIDATE:
            free = columns.others & self._mask & table.movable[table.session]
            return _Stages(free, free, free)
        if self.action == PREEMPT:
            free = columns.free & self._mask
            lower = free & (table.highest < self._pending.session.priority)
            if columns.recalls:
                lower |= free & self.recalled
            return _Stages(free, lower, lower)
        free = columns.open & self._mask
        entitled = free & (self._above_share() if self.may_take() else self.recalled)
        if columns.recalls:
            entitled |= free & self.recalled
        may_reclaim = self._points.may_reclaim(self._pending)
        return _Stages(free, entitled, entitled if may_reclaim else entitled & self.recalled)

    def _touchable(self) -> Flags:
        """The rows of other sessions that were not touched in this cycle."""
        table, mask = self._table, self._table.touchable
        own = table.index.get(self._pending.session.session_id)
        if own is not None:
            mask = mask.copy()
            mask[table.sessions[own].rows.start : table.sessions[own].rows.stop] = False
        # A best-effort kernel takes only best-effort ones.
        return mask if self._pending.batches else mask & table.best_effort

    @cached_property
    def protected(self) -> Protected:
        """How many rows each rule protects; asked before the taker evicts anything."""
        free, entitled, chosen = map(_count, self._chosen)
        rule = "within_share" if self.action == RECLAIM else "priority"
        return Protected(
            not_preemptible=_count(self._columns.others & self._mask) - free,
            plugin=entitled - chosen + self._kept_by_plugins,
            run_time=_count(self._chosen.chosen & self._columns.too_young),
            budget=self._over_budget,
        )._replace(**{rule: free - entitled})

    def _allowed_by_plugins(self, rows: Ints) -> Ints:
        """The rows without those that a plugin keeps."""
        asked = rows[~self.recalled[rows]]
        left = self._points.left(self.action, self._pending, self._table, asked)
        self._kept_by_plugins = len(asked) - len(left)
        return np.sort(np.concatenate((rows[self.recalled[rows]], left)))

    def leave_out(self, users: Collection[str]) -> None:
        """Leave out the kernels of users whose budget is spent."""
        table = self._table
        spent = np.array([one.session.owner.user in users for one in table.sessions], bool)[table.session]
        spent &= ~self.recalled
        left = ~spent[self.candidates]
        self._over_budget += _count(~left)
        self.candidates = self.candidates[left]
        self.is_candidate = self.is_candidate & ~spent

    def _above_share(self) -> Flags:
        """The rows whose queue uses more than it deserves of something that the taker asks for."""
        table = self._table
        if not self._levels:
            return ShareColumns.of(table).above(self.asked, self.used)
        over = [self._over(table.queues[queue], table.shapes[shape], {}) for queue, shape in table.pairs]
        return np.array(over, bool)[table.pair]

    def _over(self, leaf: QueueNode, shape: Shape, gone: dict[str, Row]) -> bool:
        """Whether a queue and its ancestors give a kernel, with what is already gone from each."""
        path = leaf.path[: self._levels + 1]
        for node in path:
            left = gone.get(node.name)
            columns = relevant(node, shape, self.asked)
            if not any(
                node.allocated[column] - (left[column] if left else 0) > deserved(node, column) for column in columns
            ):
                return False
        return bool(path)

    def leaves_shares(self, rows: Collection[int]) -> bool:
        """Whether a set may be reclaimed from its queues.

        Each unit is taken while its queue is above its share, and none leaves it below its guarantee.
        A unit is a surplus kernel or a whole gang. An order in which every unit may be taken
        is sought from its end: the unit that may be last is the one that may go after all others.
        """
        if self.action != RECLAIM:
            return True
        rows = without(rows, self.recalled)
        gone = self._gone(rows)
        if not self._guarantees_hold(gone):
            return False
        units = self._units(rows)
        while units:
            last = next((unit for unit in units if self._may_be_last(unit, gone)), None)
            if last is None:
                return False
            units.remove(last)
            for row in last:
                self._add(gone, row, -1)
        return True

    def _may_be_last(self, unit: Sequence[int], gone: dict[str, Row]) -> bool:
        """Whether a unit may be taken after everything else that is gone."""
        for row in unit:
            self._add(gone, row, -1)
        leaf = self._table.sessions[int(self._table.session[unit[0]])].node
        allowed = any(self._over(leaf, self._table.shapes[int(self._table.shape[row])], gone) for row in unit)
        for row in unit:
            self._add(gone, row, 1)
        return allowed

    def _units(self, rows: Collection[int]) -> list[list[int]]:
        units: list[list[int]] = []
        for session, part in self._table.by_session(rows).items():
            if self._table.ends(session, part) and not self._table.sessions[session].broken:
                units.append(part)
            else:
                units.extend([row] for row in part)
        return units

    def _gone(self, rows: Iterable[int]) -> dict[str, Row]:
        gone: dict[str, Row] = {}
        for row in rows:
            self._add(gone, row, 1)
        return gone

    def _add(self, gone: dict[str, Row], row: int, times: int) -> None:
        leaf = self._table.sessions[int(self._table.session[row])].node
        pairs = self._table.shapes[int(self._table.shape[row])].slot_pairs
        for node in leaf.path:
            taken = gone.setdefault(node.name, [0] * len(self.asked))
            for column, amount in pairs:
                taken[column] += amount * times

    def _guarantees_hold(self, gone: dict[str, Row]) -> bool:
        """Whether no queue, nor one above it, falls below its guarantee by what is gone."""
        above_taker = {node.name for node in self._pending.node.path}
        for name, row in gone.items():
            node = self._queues.nodes[name]
            for column, amount in enumerate(row):
                back = self.asked[column] if name in above_taker else 0
                if amount and node.allocated[column] - amount + back < node.guarantee[column]:
                    self._guaranteed = max(self._guaranteed, 1)
                    return False
        return True

    @property
    def met_guarantee(self) -> bool:
        """Whether a set was refused because of a guarantee."""
        return bool(self._guaranteed)

    def distance(self, node: QueueNode) -> int:
        """The number of steps in the queue tree from the taker's queue to another."""
        return distance(self.action, self._pending.node, node)

    def queue_key(self, node: QueueNode) -> tuple[int, ...]:
        """The place that plugins give to a queue that gives."""
        if self.action != RECLAIM:
            return ()
        if node.name not in self._queue_keys:
            self._queue_keys[node.name] = self._points.queue_key(self._pending.node, node)
        return self._queue_keys[node.name]

    def key(self, rows: Collection[int]) -> VictimKey:
        """The key of a set."""
        table = self._table
        sessions = table.by_session(rows)
        victims = [table.sessions[number] for number in sessions]
        reclaims = self.action == RECLAIM
        return VictimKey(
            not_loans=int(not all(self.recalled[row] for row in rows)),
            gangs_ended=sum(
                1 for number, part in sessions.items() if table.ends(number, part) and not table.sessions[number].broken
            ),
            queue_order=max((self.queue_key(one.node) for one in victims), default=()),
            distance=max((self.distance(one.node) for one in victims), default=0),
            queue_priority=max((one.node.queue.priority for one in victims if reclaims), default=0),
            session_priority=max((one.session.priority for one in victims), default=0),
            kernel_priorities=tuple(sorted((int(table.priority[row]) for row in rows), reverse=True)),
            lost_minutes=sum(table.losses[row] for row in rows) // LOSS_PER_MINUTE,
            reporting=sum(one.session.checkpoint_ms is not None for one in victims),
        )

    def queue_shortage(self) -> dict[str, Row]:
        """How much each queue above the taker lacks of what it would use, by column."""
        by_share = self._queues.policy != CAPACITY
        found: dict[str, Row] = {}
        for node in self._pending.node.limiting_queues:
            bounds = node.deserved if by_share else node.limit
            row = [
                max(0, node.allocated[column] + amount - bounds[column]) if amount else 0
                for column, amount in enumerate(self.asked)
            ]
            if any(row):
                found[node.name] = row
        return found


def without(rows: Iterable[int], flags: Flags) -> list[int]:
    """The rows that do not have a flag."""
    return [row for row in rows if not flags[row]]


def demand_of(pending: PendingSession) -> list[tuple[Shape, int]]:
    """The shapes of the kernels that the taker needs first, with their number."""
    shapes: Counter[Shape] = Counter()
    need = pending.need()
    for batch in pending.batches:
        count = min(need, len(batch.kernels))
        if count:
            shapes[batch.shape] += count
        need -= count
    if not pending.batches:
        shapes.update(batch.shape for batch in pending.best_effort)
    return list(shapes.items())


def _count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))


def first_shape(pending: PendingSession) -> Shape:
    """The shape of the first kernel that the taker lacks."""
    return (pending.batches or pending.best_effort)[0].shape
