"""Evidence about agents: starts of sessions that failed there or succeeded. Pure.

Whose fault a failure was cannot be known for certain, so only those are counted that are
the agent's by their kind: a user can name an image that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_health import AgentFailure, AgentHealth, HealthLimits
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import Change, KernelRecord, SessionRecord
from sokovan.orchestrator.sessions.handlers.prepare import IMAGE_UNAVAILABLE
from sokovan.orchestrator.sessions.handlers.start import PATH_UNAVAILABLE, REFUSED
from sokovan.orchestrator.sessions.handlers.watch import KERNEL_LOST
from sokovan.orchestrator.sessions.session_writer import by_coordinator, by_report

FAILING = "agent-failing"
PROBE_FAILED = "probe-failed"
RECOVERED = "agent-recovered"
# Faults of the agent, whichever session it was. A program that is not found is the user's, and not recorded.
_AGENT_FAULTS = frozenset({REFUSED, KERNEL_LOST, "preparing-timeout", "creating-timeout"})
# The user names images and folders: these are faults of the agent only if the session has started on another one.
_NAMED_BY_USERS = frozenset({IMAGE_UNAVAILABLE, "pulling-timeout", PATH_UNAVAILABLE})


@dataclass(slots=True)
class AgentFindings:
    """Observations about an agent since the last sweep."""

    agent_id: AgentId
    failures: list[AgentFailure] = field(default_factory=list)
    started_ms: int = 0
    probe: bool | None = None
    detail: str = ""

    def matter(self, agent: AgentInfo | None) -> bool:
        """Whether they can change the health; a start changes none that is good."""
        if agent is None or agent.status is AgentStatus.TERMINATED:
            return False
        return bool(self.failures) or self.probe is not None or bool(agent.health.failures or agent.health.rounds)

    def applied(self, before: AgentHealth, limits: HealthLimits, *, now_ms: int) -> AgentHealth:
        """The health with these findings; a start clears the failures before it."""
        health = before.started(self.started_ms) if self.started_ms else before
        later = [one for one in self.failures if one.at_ms > self.started_ms]
        health = health.failed(later, limits, now_ms=now_ms) if later else health
        if self.probe is None or health.probe_due_ms(limits) is None:
            return health
        return health.probed(succeeded=self.probe, now_ms=now_ms)

    def change(self, before: AgentHealth, after: AgentHealth) -> Change | None:
        """The note for the agent's history, if an operator must know of the change."""
        if before.is_failing and not after.is_failing:
            return by_report(RECOVERED, "a probe succeeded" if self.probe else "a kernel has started")
        if after.is_failing and not before.is_failing:
            last = after.failures[-1].detail if after.failures else ""
            return by_coordinator(FAILING, "; ".join(text for text in (after.reason, last, self.detail) if text))
        return by_report(PROBE_FAILED, self.detail) if after.is_failing and self.probe is False else None


def has_started(before: KernelStatus | None, kernel: KernelRecord) -> bool:
    """Whether a kernel has started since; it may have ended at once."""
    if kernel.status is KernelStatus.RUNNING:
        return before is not KernelStatus.RUNNING
    ended = kernel.status is KernelStatus.TERMINATING and kernel.exit_code is not None
    return ended and before is KernelStatus.CREATING


def evidence(session: SessionRecord) -> list[tuple[AgentId, AgentFailure]]:
    """The failures of a session that count for agents."""
    started = session.status is SessionStatus.RUNNING or any(one.exit_code is not None for one in session.kernels)
    faults = _AGENT_FAULTS | _NAMED_BY_USERS if started else _AGENT_FAULTS
    return [
        (one.agent_id, AgentFailure(session.session_id, session.spec.owner.user, one.code, one.detail, one.at_ms))
        for one in session.failed_starts
        if one.code in faults
    ]
