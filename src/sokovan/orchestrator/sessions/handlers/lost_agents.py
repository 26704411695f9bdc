"""Ends or requeues sessions whose agent is lost.

The slots of their kernels stay taken until their end is proved. If many agents are lost at
once, the fault is more likely the network or the manager: then sessions are kept for a while.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import StaleVersion
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import ALIVE, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.records import KernelMove, SessionRecord
from sokovan.domain.session import LostPolicy, SessionSpec
from sokovan.orchestrator.agent_recovery import AWAY, is_left_behind
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import alive_kernels
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.ports.environment import IdSource
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork

AGENT_LOST = "agent-lost"
AGENT_UNREACHABLE = AgentUnreachable.code
MASS_LOSS = "mass-loss"
# The note to kept sessions is repeated before it counts as outdated.
_NOTE_EVERY_MS = 45_000


@dataclass(slots=True)
class _MassLoss:
    """Agents that were lost together; `detail` is noted in the history of their sessions."""

    until_ms: int
    detail: str
    noted_ms: int | None = None


class EndLostSessions:
    """Ends sessions some time (`session_lost_s`) after their agent was lost."""

    name = "lost-agents"

    def __init__(self, context: HandlerContext, ids: IdSource) -> None:
        self._sessions, self._writer, self._batches = context.sessions, context.writer, context.batches
        self._quarantine, self._clock, self._telemetry = context.quarantine, context.clock, context.telemetry
        self._ids, self._timing = ids, context.timing
        # When each agent was found to be lost, and the mass loss it was part of, at most one per absence.
        self._since_ms: dict[AgentId, int] = {}
        self._losses: dict[AgentId, _MassLoss] = {}

    def clear(self) -> None:
        """Forget which agents are lost."""
        self._since_ms.clear()
        self._losses.clear()

    async def handle(self, cycle: CycleInput) -> bool:
        """End the sessions of agents that have been lost for long enough."""
        now_ms = self._clock.monotonic_ms()
        absent = {one: info for one, info in cycle.agents.items() if info.status is not AgentStatus.ALIVE}
        moved = await self._place_again(absent)
        moved |= await self._end_gone_sessions(absent)
        lost = [one for one, info in absent.items() if info.status is AgentStatus.LOST]
        self._since_ms = {one: self._since_ms.get(one, now_ms) for one in lost}
        self._losses = {one: loss for one, loss in self._losses.items() if one in self._since_ms}
        gone = sum(info.status is AgentStatus.TERMINATED for info in absent.values())
        self._detect_mass_loss(len(cycle.agents) - gone, now_ms)
        held = [one for one, loss in self._losses.items() if now_ms < loss.until_ms]
        self._telemetry.gauge("agents_held_back", len(held))
        await self._note(held, now_ms)
        lost_ms = self._timing.current.session_lost_s * 1000
        due = [one for one in lost if one not in held and now_ms - self._since_ms[one] >= lost_ms]
        for agent_id in due:
            moved |= await self._end_sessions(agent_id, self._alive_on(agent_id))
        return moved

    async def _place_again(self, agents: Mapping[AgentId, AgentInfo]) -> bool:
        """Let sessions on silent agents be placed anew if nothing of them was sent to an agent.

        After a restart of the manager an agent may seem to be there that is not. No loss is
        awaited: what was never sent runs nowhere, and its slots are free at once.
        """
        silent = frozenset(one for one, info in agents.items() if info.status in AWAY)
        found = {session.session_id: session for one in silent for session in self._alive_on(one)}
        unsent = [session for session in found.values() if not any(kernel.sent for kernel in session.kernels)]
        plans = self._writer.decide(
            self.name, unsent, lambda session: [_placed_again(session, silent)], all_at_once=True
        )
        return bool(await self._writer.move(self.name, plans))

    async def _end_gone_sessions(self, agents: Mapping[AgentId, AgentInfo]) -> bool:
        """End sessions at once if nothing of them can still run on the agent.

        It was declared gone, or it restarted without their kernels before it was lost.
        """
        moved = False
        for agent_id, info in agents.items():
            if info.status not in {AgentStatus.LOST, AgentStatus.TERMINATED}:
                continue
            behind = info if info.status is AgentStatus.LOST else None
            found = self._alive_on(agent_id, left_behind=behind)
            moved |= bool(found) and await self._end_sessions(agent_id, found)
        return moved

    def _alive_on(self, agent_id: AgentId, *, left_behind: AgentInfo | None = None) -> list[SessionRecord]:
        """The sessions with live kernels on an agent that do not end.

        With `left_behind`, those with a kernel that this agent has left behind. Reads the
        kernels on the agent only: a gang may have thousands on others.
        """
        alive = [one for one in self._sessions.kernels_on(agent_id) if one.status in ALIVE]
        ids = dict.fromkeys(one.session_id for one in alive if left_behind is None or is_left_behind(one, left_behind))
        wanted = [one for one in ids if not self._sessions.needs(one, Need.TERMINATION)]
        return [session for one in wanted if (session := self._sessions.get(one)) is not None]

    def _detect_mass_loss(self, present: int, now_ms: int) -> None:
        """Find out whether too many of the agents that are not gone were lost together."""
        guard = self._timing.current.mass_failures
        recent = [one for one, since in self._since_ms.items() if now_ms - since <= guard.window_s * 1000]
        triggered = present >= guard.agents_min and len(recent) > guard.share * present
        fresh = [one for one in recent if one not in self._losses] if triggered else []
        if not fresh:
            return
        lost = f"{len(recent)} of {present} agents were lost together"
        detail = f"{lost}; their sessions are kept for {guard.hold_s:g} s"
        loss = _MassLoss(now_ms + round(guard.hold_s * 1000), detail)
        self._losses.update(dict.fromkeys(fresh, loss))
        self._telemetry.count("mass_losses_total")

    async def _note(self, held: Collection[AgentId], now_ms: int) -> None:
        """Note repeatedly why sessions of lost agents are kept."""
        for loss in {id(loss): loss for loss in self._losses.values()}.values():
            if loss.noted_ms is not None and now_ms - loss.noted_ms < _NOTE_EVERY_MS:
                continue
            agents = [one for one in held if self._losses[one] is loss]
            ids = dict.fromkeys(session.session_id for agent in agents for session in self._alive_on(agent))
            await self._writer.note(list(ids), by_coordinator(MASS_LOSS, loss.detail))
            loss.noted_ms = now_ms

    async def _end_sessions(self, agent_id: AgentId, alive: Sequence[SessionRecord]) -> bool:
        admits = self._quarantine.admits
        requeued = [one for one in alive if one.spec.on_agent_lost is LostPolicy.REQUEUE and admits(one.session_id)]
        ended = [one for one in alive if one.spec.on_agent_lost is not LostPolicy.REQUEUE]
        plans = self._writer.decide(self.name, ended, lambda session: [_failed(session, agent_id)], all_at_once=True)
        moved = await self._writer.move(self.name, plans)
        return bool(await self._requeue(requeued, agent_id) or moved)

    async def _requeue(self, sessions: Sequence[SessionRecord], agent_id: AgentId) -> bool:
        if not sessions:
            return False
        # Ids are made before the transaction, which may be retried.
        pairs = [(session, self._copy(session.spec)) for session in sessions]

        async def work(unit: UnitOfWork, batch: Sequence[tuple[SessionRecord, SessionSpec]]) -> Sequence[SessionRecord]:
            return [record for session, spec in batch for record in await self._replace(unit, session, spec, agent_id)]

        written = await self._batches.write(pairs, work)
        for record in written.results:
            self._sessions.put(record)
            self._quarantine.recovered(record.session_id)
        for (session, _), error in written.failures:
            self._sessions.mark_stale([session.session_id])
            if not isinstance(error, StaleVersion):  # it changed concurrently; the next cycle decides again
                self._quarantine.failed(session.session_id, handler=self.name, error=error)
        return bool(written.results)

    def _copy(self, spec: SessionSpec) -> SessionSpec:
        """The same specification under new ids."""
        kernels = tuple(
            replace(kernel, kernel_id=KernelId(self._ids.new("k")), nominated=None) for kernel in spec.kernels
        )
        return replace(spec, session_id=SessionId(self._ids.new("s")), kernels=kernels)

    async def _replace(
        self, unit: UnitOfWork, session: SessionRecord, spec: SessionSpec, agent_id: AgentId
    ) -> Sequence[SessionRecord]:
        """End a session and enqueue its successor in one transaction.

        Returns both, and the sessions that now depend on the successor. The old one ends at
        once for its owner, so that its name is free; its slots stay taken.
        """
        step, before = _failed(session, agent_id), session.session_id
        moves = [KernelMove(one.kernel, one.trigger) for one in step.moves(session)]
        await unit.sessions.move_kernels(moves, step.change)
        detail = f"agent {agent_id} is lost; {spec.session_id} replaces it"
        ended = await unit.sessions.set_goal(before, Goal.FORCE, by_coordinator(AGENT_LOST, detail))
        change = by_coordinator("requeued", f"it replaces {before}, whose agent was lost")
        successor = await unit.sessions.enqueue(spec, change, in_place_of=before, sealed=session.sealed)
        waiting = [one.session_id for one in self._sessions.all() if before in one.spec.dependencies]
        dependents = await unit.sessions.page(SessionFilter(ids=waiting), limit=len(waiting)) if waiting else ()
        return ended, successor, *dependents


def _placed_again(session: SessionRecord, silent: Collection[AgentId]) -> SessionStep:
    """The step of a session that waits again; it does not count how often it may be tried."""
    there = [kernel for kernel in session.kernels if kernel.agent_id in silent and kernel.status in ALIVE]
    detail = f"agent {there[0].agent_id} does not answer, and nothing was sent to it; the session is placed again"
    avoided_ms = session.spec.retry.backoff_ms(session.attempt)
    return SessionStep(
        KernelTrigger.RETRY_REQUESTED,
        by_coordinator(AGENT_UNREACHABLE, detail),
        alive_kernels(session),
        failed_starts_ms={kernel.kernel_id: avoided_ms for kernel in there},
    )


def _failed(session: SessionRecord, agent_id: AgentId) -> SessionStep:
    lost = tuple(one.kernel_id for one in session.kernels if one.agent_id == agent_id and one.status in ALIVE)
    return SessionStep(KernelTrigger.FAILED, by_coordinator(AGENT_LOST, f"agent {agent_id} is lost"), lost)
