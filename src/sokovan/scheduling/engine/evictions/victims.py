"""VictimTable: all running kernels of a cycle as integer columns.

Takes the sessions of a snapshot. Gives one row per running kernel (agent, session, queue,
priorities, loss, released amounts), and answers whether a session keeps its gang without
some of its kernels. It is made when the first starving session appears.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import numpy as np

from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.eviction import PREEMPT, RECLAIM, notice_ms
from sokovan.domain.session import SessionType
from sokovan.scheduling.engine.pending_session import NO_AGENT
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.timing.calendar import Calendar, blocks_of_running
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueUsage
from sokovan.scheduling.engine.workspace import Flags, Ints
from sokovan.scheduling.snapshot import (
    KernelWorkload,
    SessionWorkload,
    SystemSnapshot,
    gang_holds,
    loss_slots,
    unsaved_ms,
)

# How long the minimum of a session is not evicted after its start, by action.
MIN_RUNTIME_S = {PREEMPT: 60, RECLAIM: 300}
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class VictimSession:
    """A running session: its rows, and whether it has its gang."""

    __slots__ = ("_leads", "_spare", "_waiting", "allowance", "broken", "kernels", "node", "plain", "rows", "session")

    def __init__(
        self, session: SessionWorkload, node: QueueNode, rows: range, kernels: Sequence[KernelWorkload]
    ) -> None:
        self.session, self.node, self.rows, self.kernels = session, node, rows, kernels
        # A best-effort kernel counts towards the minimum before it has an agent.
        self._waiting: Sequence[KernelWorkload] = ()
        if len(kernels) < len(session.kernels):
            self._waiting = [kernel for kernel in session.kernels if kernel.agent is None and not kernel.slots]
        self.plain = not session.group_minimums and not session.partitions
        surplus = len(kernels) + len(self._waiting) - session.gang_size
        self.broken = surplus < 0 if self.plain else not gang_holds(session, [*kernels, *self._waiting])
        # How many kernels may go, as far as the minimum alone decides.
        self.allowance = len(kernels) if self.broken else surplus
        self._leads: frozenset[int] | None = None
        self._spare: dict[str, int] | None = None

    def is_young(self, now_ms: int, min_runtime_s: int) -> bool:
        """Whether it is starting, or runs for less than its minimum run time."""
        until_ms = self.young_until_ms(now_ms, min_runtime_s)
        return self.session.starting if until_ms is None else now_ms < until_ms

    def young_until_ms(self, now_ms: int, min_runtime_s: int) -> int | None:
        """The end of its minimum run time; None if it does not run yet.

        The time doubles with each eviction of the last day, up to eight times.
        """
        session = self.session
        if session.starting or session.running_since_ms is None:
            return None
        day = [at for at in session.evictions_ms if at > now_ms - DAY_MS]
        return session.running_since_ms + (min_runtime_s * 1000 << min(len(day), 3))

    def keeps_gang(self, gone: Collection[int]) -> bool:
        """Whether these rows may go; any part of a broken session may."""
        if self.broken or not gone:
            return True
        if len(gone) > self.allowance or not self.leading().isdisjoint(gone):
            return False
        if self.plain:
            return True
        if not self.session.partitions:
            leaving = Counter(self._group(row) for row in gone)
            return all(leaving[group] <= spare for group, spare in self._spare_of_groups().items())
        first = self.rows.start
        kept = [kernel for index, kernel in enumerate(self.kernels) if first + index not in gone]
        return gang_holds(self.session, [*kept, *self._waiting])

    def surplus(self, ordered: Iterable[int]) -> list[int]:
        """The rows that may go without the gang, taken in this order."""
        left = list(ordered)
        if self.broken or not self.session.partitions:
            return left if self.broken else list(self._spare_rows(left))
        gone, before = set[int](), -1
        while len(gone) > before:
            # A kernel of a whole group may go once the group is broken, so the passes repeat.
            before = len(gone)
            for row in left:
                if row not in gone and self.keeps_gang(gone | {row}):
                    gone.add(row)
        return [row for row in left if row in gone]

    def leading(self) -> frozenset[int]:
        """The rows without which the others cannot go on."""
        if self._leads is None:
            leading = (index for index, kernel in enumerate(self.kernels) if kernel.leads)
            self._leads = frozenset(self.rows.start + index for index in leading)
        return self._leads

    def _group(self, row: int) -> str:
        return self.kernels[row - self.rows.start].group

    def _spare_of_groups(self) -> dict[str, int]:
        """How many kernels of each group with a minimum may go."""
        if self._spare is None:
            have = Counter(kernel.group for kernel in (*self.kernels, *self._waiting))
            self._spare = {group: have[group] - least for group, least in self.session.group_minimums.items()}
        return self._spare

    def _spare_rows(self, rows: Iterable[int]) -> Iterator[int]:
        """The rows that may go as far as counts decide."""
        left, spare, leading = self.allowance, dict(self._spare_of_groups()), self.leading()
        for row in rows:
            group = self._group(row)
            if left > 0 and row not in leading and spare.get(group, 1) > 0:
                left -= 1
                if group in spare:
                    spare[group] -= 1
                yield row


class VictimTable:
    """One row per running kernel that is not being released."""

    def __init__(
        self,
        snapshot: SystemSnapshot,
        table: ShapeTable,
        queue_usage: QueueUsage,
        *,
        assumed_s: int,
        calendar: Calendar | None = None,
    ) -> None:
        self._calendar = calendar
        self._now_ms, self._assumed_ms, self.queue_usage = snapshot.now_ms, assumed_s * 1000, queue_usage
        self._young: dict[str, Flags] = {}
        self.sessions: list[VictimSession] = []
        self.index: dict[str, int] = {}  # sessions by id
        self.kernels: list[KernelWorkload] = []
        self.shapes: list[Shape] = []
        self.losses: list[int] = []  # in millionths of a slot second
        for session in snapshot.sessions:
            self._add(session, queue_usage)
        self._fill_shapes(table)
        self._fill_columns(table)

    def _add(self, session: SessionWorkload, queue_usage: QueueUsage) -> None:
        running: Sequence[KernelWorkload] = session.kernels
        for kernel in running:
            if kernel.agent is None or kernel.releasing:
                running = [one for one in running if one.agent is not None and not one.releasing]
                break
        if not running:
            return
        self.index[session.session_id] = len(self.sessions)
        rows = range(len(self.kernels), len(self.kernels) + len(running))
        self.sessions.append(VictimSession(session, queue_usage.node(session.charged), rows, running))
        self.kernels.extend(running)

    def _fill_shapes(self, table: ShapeTable) -> None:
        shapes = table.running
        if self._calendar is not None:
            blocks = [blocks_of_running(self._calendar, one.session) for one in self.sessions]
            shapes = [
                shape.during(bits, table.workspace) for shape, bits in zip(shapes, self._each_row(blocks), strict=True)
            ]
        self.shapes = list(dict.fromkeys(shapes))
        numbers = {shape: number for number, shape in enumerate(self.shapes)}
        slots = {shape: loss_slots(shape.slots) for shape in self.shapes}
        self.shape: Ints = np.array([numbers[shape] for shape in shapes], np.int64)
        lost_ms = self._each_row([unsaved_ms(one.session, self._now_ms, self._assumed_ms) for one in self.sessions])
        self.losses = [lost * slots[shape] for lost, shape in zip(lost_ms, shapes, strict=True)]

    def _each_row(self, values: Sequence[int]) -> Iterator[int]:
        """A number of each session, for each of its rows."""
        return chain.from_iterable(
            repeat(value, len(one.rows)) for value, one in zip(values, self.sessions, strict=True)
        )

    def _fill_columns(self, table: ShapeTable) -> None:
        sessions, kernels, workspace = self.sessions, self.kernels, table.workspace
        self.session: Ints = np.repeat(np.arange(len(sessions)), [len(one.rows) for one in sessions]).astype(np.int64)
        position = workspace.position.get
        self.agent: Ints = _column([position(agent, NO_AGENT) for agent in map(attrgetter("agent"), kernels)])
        self.priority: Ints = np.fromiter(map(attrgetter("priority"), kernels), np.int64, len(kernels))
        self.session_priority: Ints = _column([one.session.priority for one in sessions])[self.session]
        nodes = {id(one.node): one.node for one in sessions}
        self.queues = list(nodes.values())
        numbers = {key: number for number, key in enumerate(nodes)}
        self.queue: Ints = _column([numbers[id(one.node)] for one in sessions])[self.session]
        # The queues that sessions were submitted to: with a loan another one is charged.
        homes = {name: self.queue_usage.node(name) for name in {one.session.queue for one in sessions}}
        places = {name: number for number, name in enumerate(homes)}
        self.homes = list(homes.values())
        self.home: Ints = _column([places[one.session.queue] for one in sessions])[self.session]
        # The distinct pairs of queue and shape, and the pair of each row.
        numbered = self.queue * max(1, len(self.shapes)) + self.shape
        pairs = distinct(numbered)
        self.pair: Ints = np.searchsorted(pairs, numbered)
        self.pairs = [divmod(pair, len(self.shapes)) for pair in pairs.tolist()]
        self.loss: Ints = np.array(self.losses, np.int64)
        may_go = [one.session.preemptible and one.session.session_type is not SessionType.SYSTEM for one in sessions]
        self.preemptible: Flags = np.fromiter(map(attrgetter("preemptible"), kernels), bool, len(kernels))
        self.preemptible &= np.array(may_go, bool)[self.session]
        self.best_effort: Flags = np.array([not shape.slots for shape in self.shapes], bool)[self.shape]
        names = list(map(attrgetter("kernel_id"), kernels))
        self.name_rank: Ints = np.empty(len(names), np.int64)
        self.name_rank[_column(sorted(range(len(names)), key=names.__getitem__))] = np.arange(len(names))
        width = workspace.width
        released = [shape.released[width : 2 * width] for shape in self.shapes]
        self.shape_released: Ints = np.array(released, np.int64).reshape(len(released), width)
        self.released: Ints = self.shape_released[self.shape]
        # Sessions that were placed, reserved or evicted in this cycle give nothing (more).
        self.untouchable: Flags = np.zeros(len(sessions), bool)
        self.broken: Flags = np.array([one.broken for one in sessions], bool)
        self.movable: Flags = np.array([self._may_move(one.session) for one in sessions], bool)
        self.loaned: Flags = np.array([one.session.loan is not None for one in sessions], bool)
        self.allowance: Ints = _column([one.allowance for one in sessions])
        self.plain: Flags = np.array([one.plain for one in sessions], bool)
        self.leads: Flags = np.fromiter(map(attrgetter("leads"), kernels), bool, len(kernels))
        self.leads &= ~self.broken[self.session]
        self.sizes: Ints = _column([len(one.rows) for one in sessions])
        self.largest = int(self.sizes.max(initial=0))
        self.kernels_of: Counter[str] = Counter()  # running kernels by user
        for one in sessions:
            self.kernels_of[one.session.owner.user] += len(one.rows)
        self.highest: Ints = np.maximum(self.session_priority, self.priority)
        self.touchable: Flags = np.ones(len(kernels), bool)  # rows of sessions that are not untouchable
        self.placed: bool = bool((self.agent >= 0).all())  # whether the agents of all rows are known
        self.weights: dict[Shape, Ints] = {}  # what a row of each shape releases of another one (see `seats`)
        # Columns and orders that takers share (see `queue_columns` and `order`).
        self.kept: dict[tuple[str, ...], Any] = {}

    def keep_off(self, session_id: str) -> None:
        """Take no (more) kernels of a session in this cycle."""
        if session_id in self.index:
            rows = self.sessions[self.index[session_id]].rows
            self.untouchable[self.index[session_id]] = True
            self.touchable[rows.start : rows.stop] = False

    def _may_move(self, session: SessionWorkload) -> bool:
        """Whether a session may be moved: at most once an hour."""
        lately = session.moved_ms is not None and self._now_ms - session.moved_ms < HOUR_MS
        return session.migratable and not lately and session.session_type is not SessionType.SYSTEM

    def notice_ms(self, row: int) -> int:
        """The time from the notice of a kernel to its end.

        A loan has no longer than its lender waits.
        """
        victim = self.sessions[int(self.session[row])]
        return notice_ms(victim.session.grace_ms, victim.node.queue.return_s if victim.session.loan else None)

    def young(self, action: str) -> Flags:
        """The sessions whose minimum is protected, because they run for too short a time."""
        if action not in self._young:
            least = self._min_runtimes(action)
            flags = [one.is_young(self._now_ms, least[one.session.queue]) for one in self.sessions]
            self._young[action] = np.array(flags, bool)
        return self._young[action]

    def young_until_ms(self, action: str, sessions: Ints) -> int | None:
        """The earliest end of the minimum run times of sessions.

        None if none of them runs yet.
        """
        least = self._min_runtimes(action)
        some = (self.sessions[number] for number in distinct(sessions).tolist())
        ends = [one.young_until_ms(self._now_ms, least[one.session.queue]) for one in some]
        return min((end for end in ends if end is not None), default=None)

    def _min_runtimes(self, action: str) -> dict[str, int]:
        return {node.name: _min_runtime_s(node, action) for node in self.homes}

    def by_session(self, rows: Iterable[int]) -> dict[int, list[int]]:
        """Rows by session."""
        found: dict[int, list[int]] = {}
        for row in rows:
            found.setdefault(int(self.session[row]), []).append(row)
        return found

    def agent_id(self, row: int) -> AgentId:
        """The agent that a kernel runs on."""
        return AgentId(str(self.kernels[row].agent))

    def ends(self, session: int, rows: Collection[int]) -> bool:
        """Whether these rows are all that a session runs."""
        return len(rows) == len(self.sessions[session].rows)

    def legal(self, rows: Iterable[int], *, whole: Flags) -> bool:
        """Whether every session keeps its gang, or goes whole where it may."""
        return all(
            self.sessions[session].keeps_gang(set(part)) or (self.ends(session, part) and bool(whole[session]))
            for session, part in self.by_session(rows).items()
        )


def _min_runtime_s(queue: QueueNode, action: str) -> int:
    """The minimum run time that a queue has, or takes from those above it."""
    own = (node.queue.min_runtime_s for node in queue.path if node.queue.min_runtime_s is not None)
    return next(own, MIN_RUNTIME_S.get(action, 0))


def distinct(column: Ints) -> Ints:
    """The distinct numbers of a column, in order."""
    ordered = np.sort(column)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered


def _column(numbers: Sequence[int]) -> Ints:
    return np.array(numbers, np.int64)
