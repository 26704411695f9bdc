"""BestEffortUsage: the best-effort kernels of agents and users during a cycle.

Takes the sessions of a snapshot, then the placements of the cycle. Gives the counts of
each agent for the workspace, and how many more kernels a user may run. Best-effort
kernels request no slots, so that no other limit counts them.
"""

from __future__ import annotations

from collections import Counter

from sokovan.scheduling.engine.workspace import BestEffortCounts
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot


class BestEffortUsage:
    """Counts of best-effort kernels, and the limits of the scaling group."""

    def __init__(self, snapshot: SystemSnapshot) -> None:
        group = snapshot.scaling_group
        self._name, self._per_user_max = group.name, group.best_effort_per_user_max
        self.by_agent = BestEffortCounts(group.best_effort_per_agent_max, Counter(), Counter())
        self._by_user: Counter[str] = Counter()
        for session in snapshot.sessions:
            for kernel in session.kernels:
                if kernel.slots or kernel.agent is None:
                    continue
                self.by_agent.on_agents[kernel.agent] += 1
                self.by_agent.releasing[kernel.agent] += kernel.releasing
                self._by_user[session.owner.user] += session.session_type.is_charged

    def left(self, session: SessionWorkload) -> int:
        """How many more kernels the owner of a session may run."""
        if not session.session_type.is_charged:
            return len(session.kernels)
        return max(0, self._per_user_max - self._by_user[session.owner.user])

    def count(self, session: SessionWorkload, kernels: int) -> None:
        """Count kernels that were placed."""
        if session.session_type.is_charged:
            self._by_user[session.owner.user] += kernels

    def saved(self) -> Counter[str]:
        """The counts by user, for `restore`."""
        return self._by_user.copy()

    def restore(self, saved: Counter[str]) -> None:
        """Put the counts by user back."""
        self._by_user = saved

    def limit_text(self, session: SessionWorkload) -> str:
        """The use and the limit of the owner of a session."""
        user, count = session.owner.user, self._by_user[session.owner.user]
        limit = f"the limit of scaling group {self._name} is {self._per_user_max}"
        return f"user {user} runs {count} best-effort kernels, {limit}"
