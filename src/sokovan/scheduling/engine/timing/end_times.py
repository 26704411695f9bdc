"""EndTimes: by when running kernels have ended, as columns.

Takes the running kernels of a snapshot and those that are placed in the cycle. Gives what
they will have released by a time. Kernels of sessions without a time limit are left out:
they may run for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from sokovan.scheduling.engine.workspace import Ints, Workspace
from sokovan.scheduling.snapshot import NEVER_MS, SessionWorkload, SystemSnapshot

# Agent, end, number of its amounts, and queue of a kernel.
Entry = tuple[int, int, int, str]


class EndTimes:
    """The agents, ends and amounts of kernels with a time limit."""

    def __init__(self, snapshot: SystemSnapshot, workspace: Workspace) -> None:
        self._snapshot, self._workspace = snapshot, workspace
        self._placed: list[Entry] = []
        self._queues: list[str] = []
        self._amounts: dict[tuple[int, ...], int] = {}  # the distinct rows of amounts, numbered

    def place(self, agent: int, ends_ms: int, row: Ints, queue: str) -> None:
        """Count a kernel that was placed in this cycle."""
        if ends_ms < NEVER_MS:
            self._placed.append((agent, ends_ms, self._numbered(row.tolist()), queue))
            self.__dict__.pop("columns", None)

    @cached_property
    def columns(self) -> tuple[Ints, Ints, Ints]:
        """Agents, ends and released amounts, in the order of the ends."""
        found = [*self._running, *self._placed]
        columns = zip(*found, strict=True) if found else ((), (), (), ())
        *numbers, queues = columns
        agents, ends, rows = (np.array(column, np.int64) for column in numbers)
        order = np.lexsort((agents, ends))
        self._queues = [queues[index] for index in order.tolist()]
        amounts = np.array(list(self._amounts), np.int64).reshape(len(self._amounts), self._workspace.width)
        return agents[order], ends[order], amounts[rows[order]]

    def _numbered(self, row: Sequence[int]) -> int:
        return self._amounts.setdefault(tuple(row), len(self._amounts))

    @cached_property
    def _running(self) -> list[Entry]:
        snapshot, workspace = self._snapshot, self._workspace
        position: Mapping[str, int] = workspace.position
        rows: dict[object, int] = {}
        found = []
        for session in snapshot.sessions:
            if session.time_limit_ms is None:
                continue
            end = end_of(session, snapshot.now_ms)
            for kernel in session.kernels:
                # Amounts that are being released are free soon, whatever the limit.
                if kernel.agent is None or kernel.releasing:
                    continue
                agent = position.get(kernel.agent, -1)
                if agent >= 0:
                    row = rows.get(kernel.slots)
                    if row is None:
                        row = rows[kernel.slots] = self._numbered(workspace.row_of(kernel.slots))
                    found.append((agent, end, row, str(session.queue)))
        return found

    def released_by(self, at_ms: int) -> Ints:
        """The amounts that each agent will have released by a time."""
        agents, ends, rows = self.columns
        count = int(np.searchsorted(ends, at_ms, side="right"))
        released = np.zeros((len(self._workspace.ids), self._workspace.width), np.int64)
        np.add.at(released, agents[:count], rows[:count])
        return released

    def usage_ended_by(self, at_ms: int) -> dict[str, list[int]]:
        """The usage of each queue that will have ended by a time."""
        _, ends, rows = self.columns
        count = int(np.searchsorted(ends, at_ms, side="right"))
        by_queue: dict[str, list[int]] = {}
        for index, queue in enumerate(self._queues[:count]):
            by_queue.setdefault(queue, []).append(index)
        slots = self._workspace.slot_count
        return {queue: rows[indexes][:, :slots].sum(axis=0).tolist() for queue, indexes in by_queue.items()}

    def times(self) -> list[int]:
        """The ends, each once, in order."""
        ends = self.columns[1]
        return np.unique(ends).tolist() if len(ends) else []


def end_of(session: SessionWorkload, now_ms: int) -> int:
    """The time by which a running session has ended.

    One that is starting runs from now on; one that is overdue is about to end.
    """
    since = now_ms if session.running_since_ms is None else session.running_since_ms
    end = session.ends_by(since)
    return end if end > now_ms else now_ms + 1
