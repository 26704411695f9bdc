"""What the handlers of a round share: what they look at and work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId, SessionId
from sokovan.orchestrator.agent_requests import AgentReply, AgentRequests
from sokovan.orchestrator.handler import DeadlinePassed
from sokovan.orchestrator.quarantine import Quarantine
from sokovan.orchestrator.sessions.agent_reports import AgentReports, ReportDiff
from sokovan.orchestrator.sessions.session_cache import SessionCache
from sokovan.orchestrator.sessions.session_cache_reader import SessionCacheReader
from sokovan.orchestrator.sessions.session_writer import SessionWriter, by_coordinator
from sokovan.ports.agent_gateway import AgentGateway, AgentUnreachable
from sokovan.ports.environment import Clock, Telemetry

# A session hears of an agent that does not answer once the first hiccup is over; the rest is counted in figures.
_TOLD_AT = 3


@dataclass(slots=True)
class Cycle:
    """What one round looks at.

    `long` says that everything is compared, not only what changed. `agents` are the
    agents as the store has them.
    """

    long: bool = False
    news: ReportDiff = field(default_factory=ReportDiff)
    agents: Mapping[AgentId, AgentInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """What handlers work with."""

    live: SessionCache
    reader: SessionCacheReader
    writer: SessionWriter
    reports: AgentReports
    errands: AgentRequests
    quarantine: Quarantine
    gateway: AgentGateway
    clock: Clock
    telemetry: Telemetry

    async def unanswered(self, handler: str, answer: AgentReply, session_id: SessionId) -> None:
        """A request failed: it is repeated, and the session hears why."""
        error = answer.error
        if error is None:
            return
        self.telemetry.count("requests_failed_total", kind=answer.key.kind)
        if not isinstance(error, SokovanError):
            self.quarantine.failed(session_id, handler=handler, error=error)
        elif (
            isinstance(error, AgentUnreachable | DeadlinePassed)
            and self.errands.pauses.failures(answer.key) == _TOLD_AT
        ):
            detail = f"{answer.key.kind}: {error.message}"
            await self.writer.note([session_id], by_coordinator("agent-unreachable", detail))
