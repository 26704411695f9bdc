"""The last report of each agent, by kernel, and the time of its arrival.

A report lists all kernels of an agent. It is compared with sessions that were read before
it, so that a kernel created in between is not taken for missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.records import KernelRecord
from sokovan.ports.agent_states import AgentState, KernelReport


@dataclass(slots=True)
class ReportDiff:
    """Changes between two sets of reports.

    `updated` are agents with a newer report; `enrolled` those that report for the first
    time or as a newer incarnation; `restarted` only the latter.
    """

    kernels: list[KernelId] = field(default_factory=list)
    updated: list[AgentId] = field(default_factory=list)
    enrolled: list[AgentId] = field(default_factory=list)
    restarted: list[AgentId] = field(default_factory=list)


class _Known(NamedTuple):
    state: AgentState
    kernels: Mapping[tuple[KernelId, int], KernelReport]
    heard_ms: int
    saved: tuple[KernelReport, ...] = ()


class AgentReports:
    """The reports as of the last update."""

    def __init__(self) -> None:
        self._known: dict[AgentId, _Known] = {}

    def update(self, states: Mapping[AgentId, AgentState], *, now_ms: int) -> ReportDiff:
        """Store newer reports and return the changes; `now_ms` is of a monotonic clock."""
        diff = ReportDiff()
        for agent_id, state in states.items():
            before = self._known.get(agent_id)
            if before is not None and (state is before.state or _mark(state) == _mark(before.state)):
                continue
            if state.kernels:
                kernels = {(report.kernel_id, report.attempt): report for report in state.kernels}
                saved = tuple([report for report in state.kernels if report.checkpoint is not None])
                self._known[agent_id] = _Known(state, kernels, now_ms, saved)
            else:
                kernels = {}
                self._known[agent_id] = _Known(state, kernels, now_ms)
            diff.updated.append(agent_id)
            if before is None or state.incarnation > before.state.incarnation:
                diff.enrolled.append(agent_id)
                diff.restarted += [] if before is None else [agent_id]
            if before is None or state.kernels != before.state.kernels:
                older = {} if before is None else before.kernels
                diff.kernels += _differing(kernels, older)
        return diff

    def state(self, agent_id: AgentId) -> AgentState | None:
        """The last report of an agent, of any age."""
        known = self._known.get(agent_id)
        return None if known is None else known.state

    def is_newer(self, state: AgentState) -> bool:
        """Whether a report is newer than the last one of its agent here."""
        known = self._known.get(state.agent_id)
        return known is None or _mark(state) > _mark(known.state)

    def heard_ms(self, agent_id: AgentId) -> int | None:
        """When the last report arrived."""
        known = self._known.get(agent_id)
        return None if known is None else known.heard_ms

    def listed(self, kernel: KernelRecord) -> KernelReport | None:
        """The report on a kernel; None if its agent does not list it or has not reported."""
        known = None if kernel.agent_id is None else self._known.get(kernel.agent_id)
        return None if known is None else known.kernels.get((kernel.kernel_id, kernel.attempt))

    def looked_up(self, kernel: KernelRecord) -> tuple[KernelReport | None, bool]:
        """`listed` and `current` of a kernel, for the many of a session."""
        known = None if kernel.agent_id is None else self._known.get(kernel.agent_id)
        if known is None:
            return None, False
        report = known.kernels.get((kernel.kernel_id, kernel.attempt))
        return report, known.state.incarnation == kernel.incarnation

    def checkpoints(self) -> Iterator[KernelReport]:
        """The reports of kernels that reported a checkpoint."""
        return (report for known in self._known.values() for report in known.saved)

    def fenced(self, kernel: KernelRecord) -> bool:
        """Whether a later incarnation of its agent reports and does not list it."""
        state = None if kernel.agent_id is None else self.state(kernel.agent_id)
        later = state is not None and state.incarnation > (kernel.incarnation or 0) and not state.partial
        return later and self.listed(kernel) is None

    def current(self, kernel: KernelRecord) -> bool:
        """Whether the last report is of the incarnation that the kernel belongs to."""
        state = None if kernel.agent_id is None else self.state(kernel.agent_id)
        return state is not None and state.incarnation == kernel.incarnation

    def forget(self, agent_id: AgentId) -> None:
        """Drop the report of an agent that is gone."""
        self._known.pop(agent_id, None)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


def _mark(state: AgentState) -> tuple[int, int]:
    return state.incarnation, state.sequence


def _differing(
    newer: Mapping[tuple[KernelId, int], KernelReport], older: Mapping[tuple[KernelId, int], KernelReport]
) -> list[KernelId]:
    """The kernels that were added, removed or changed."""
    changed = [key[0] for key, report in newer.items() if older.get(key) != report]
    return changed + [key[0] for key in older if key not in newer]
