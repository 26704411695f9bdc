"""One taker among running sessions, with the parts of the search of its victims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sokovan.scheduling.engine.evictions.rules import EvictionRules
from sokovan.scheduling.engine.evictions.seats import SeatCounter
from sokovan.scheduling.engine.evictions.taker import Taker
from sokovan.scheduling.engine.evictions.trial import EvictionTrial
from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.pipeline import SchedulingCycle
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from tests.unit.scheduling.little_cluster import agent, kernel, session, snapshot


def runs(name: str, *agents: str, slots: str = "cpu=1", priorities: Sequence[int] = (), **more: Any) -> SessionWorkload:
    """A session with one kernel on each of these agents."""
    ranks = [*priorities, *([0] * len(agents))]
    kernels = [kernel(f"{name}.{i}", slots, on=host, priority=ranks[i]) for i, host in enumerate(agents)]
    return session(name, *kernels, **more)


def cluster(*sessions: SessionWorkload, cpu: int = 1, agents: Sequence[str] = (), **more: Any) -> SystemSnapshot:
    """Agents with so much cpu each, used by what runs there."""
    running: list[KernelWorkload] = [one for session in sessions for one in session.kernels if one.agent is not None]
    names = sorted({*agents, *(str(one.agent) for one in running)})
    made = []
    for name in names:
        here = [one for one in running if one.agent == name]
        used = sum(one.slots["cpu"] for one in here)
        made.append(agent(name, f"cpu={cpu}", used=f"cpu={used / 1000}" if used else "", kernel_count=len(here)))
    return snapshot(made, sessions, **more)


class TakerParts:
    """The parts of a cycle for the session `taker`; capacity policy by default."""

    def __init__(self, seen: SystemSnapshot, action: str = "preempt", **policy: Any) -> None:
        profile = SchedulingProfile(**{"queue_policy": "capacity", **policy})
        self.cycle = SchedulingCycle(seen, profile, BUILT_IN)
        self.engine = self.cycle.evicting_engine()
        pending = {one.session.session_id: one for one in self.cycle.pending_sessions()}
        self.pending: PendingSession = pending["taker"]  # type: ignore[index]  # ids are plain text
        queue_usage = self.engine.context.queue_usage
        self.table = VictimTable(seen, self.engine.shapes, queue_usage, assumed_s=600)
        levels = profile.eviction_options.ancestor_reclaim_level
        self.rules = EvictionRules(action, self.pending, self.table, levels=levels)
        self.seats = SeatCounter(self.engine.context, self.pending, self.rules, self.table)
        self.trial = EvictionTrial(self.engine, self.table)
        self.taker = Taker(self.rules, self.table, self.seats, lambda rows: self.trial.fits(self.pending, rows))

    def rows(self, *names: str) -> list[int]:
        """The rows of these kernels."""
        return [row for row, one in enumerate(self.table.kernels) if one.kernel_id in names]

    def names(self, rows: Sequence[int]) -> list[str]:
        """The kernels of these rows."""
        return sorted(str(self.table.kernels[row].kernel_id) for row in rows)
