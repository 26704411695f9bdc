"""What agents last said, looked up by kernel, and when they last said anything.

A report lists everything that an agent holds. It is compared with sessions that were
read before it: what is not in the copy yet is nobody's loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.records import KernelRecord
from sokovan.ports.agent_states import AgentState, KernelReport


@dataclass(slots=True)
class ReportDiff:
    """What is new in a set of reports.

    `spoke` are agents of which there is a newer report; `reborn` those that speak for
    the first time, or as a newer incarnation; `restarted` only the latter.
    """

    kernels: list[KernelId] = field(default_factory=list)
    spoke: list[AgentId] = field(default_factory=list)
    reborn: list[AgentId] = field(default_factory=list)
    restarted: list[AgentId] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Known:
    state: AgentState
    kernels: Mapping[tuple[KernelId, int], KernelReport]
    heard_ms: int


class AgentReports:
    """The reports as of the last look."""

    def __init__(self) -> None:
        self._known: dict[AgentId, _Known] = {}

    def take_in(self, states: Mapping[AgentId, AgentState], *, now_ms: int) -> ReportDiff:
        """Keep what is fresh, and tell what is new. `now_ms` is of a monotonic clock."""
        news = ReportDiff()
        for agent_id, state in states.items():
            before = self._known.get(agent_id)
            if before is not None and _mark(state) == _mark(before.state):
                continue
            kernels = {(report.kernel_id, report.attempt): report for report in state.kernels}
            self._known[agent_id] = _Known(state, kernels, now_ms)
            news.spoke.append(agent_id)
            if before is None or state.incarnation > before.state.incarnation:
                news.reborn.append(agent_id)
                news.restarted += [] if before is None else [agent_id]
            if before is None or state.kernels != before.state.kernels:
                older = {} if before is None else before.kernels
                news.kernels += _differing(kernels, older)
        return news

    def state(self, agent_id: AgentId) -> AgentState | None:
        """The last report of an agent, however old."""
        known = self._known.get(agent_id)
        return None if known is None else known.state

    def heard_ms(self, agent_id: AgentId) -> int | None:
        """When the last report was new to us."""
        known = self._known.get(agent_id)
        return None if known is None else known.heard_ms

    def listed(self, kernel: KernelRecord) -> KernelReport | None:
        """What its agent says of a kernel; None if it does not list it, or says nothing."""
        known = None if kernel.agent_id is None else self._known.get(kernel.agent_id)
        return None if known is None else known.kernels.get((kernel.kernel_id, kernel.attempt))

    def fenced(self, kernel: KernelRecord) -> bool:
        """Whether a later incarnation of its agent speaks, and does not list it."""
        state = None if kernel.agent_id is None else self.state(kernel.agent_id)
        return state is not None and state.incarnation > (kernel.incarnation or 0) and self.listed(kernel) is None

    def current(self, kernel: KernelRecord) -> bool:
        """Whether the incarnation that answers for the kernel has spoken."""
        state = None if kernel.agent_id is None else self.state(kernel.agent_id)
        return state is not None and state.incarnation == kernel.incarnation

    def forget(self, agent_id: AgentId) -> None:
        """An agent has left for good."""
        self._known.pop(agent_id, None)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


def _mark(state: AgentState) -> tuple[int, int]:
    return state.incarnation, state.sequence


def _differing(
    newer: Mapping[tuple[KernelId, int], KernelReport], older: Mapping[tuple[KernelId, int], KernelReport]
) -> list[KernelId]:
    """The kernels that came, went, or are not what they were."""
    changed = [key[0] for key, report in newer.items() if older.get(key) != report]
    return changed + [key[0] for key in older if key not in newer]
