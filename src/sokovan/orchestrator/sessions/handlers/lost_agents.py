"""Sessions whose agent is lost for good: ended, or tried again from the start.

What their kernels hold stays taken until there is a proof. If many agents are lost
at a time, the fault is more likely ours: then nothing is ended for a while.
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
from sokovan.orchestrator.agent_recovery import is_left_behind
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.session_cache import Need, needs_of
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator
from sokovan.ports.environment import IdSource
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork

AGENT_LOST = "agent-lost"
BRAKED = "mass-loss"
# Sessions that are left alone hear of it again, sooner than what they heard counts as over.
_TELL_AGAIN_MS = 45_000


@dataclass(frozen=True, slots=True)
class MassFailureGuard:
    """When so many agents are lost that sessions are left alone.

    More than `share` of at least `agents_min` agents, within `window_s`. An agent that is
    still lost after `hold_s` is lost after all.
    """

    share: float = 0.3
    agents_min: int = 4
    window_s: float = 60.0
    hold_s: float = 600.0


@dataclass(slots=True)
class _MassLoss:
    """Agents that were lost together, and what their sessions are told."""

    until_ms: int
    detail: str
    told_ms: int | None = None


class EndLostSessions:
    """Ends sessions `lost_s` after their agent was lost."""

    name = "lost-agents"

    def __init__(
        self,
        bench: HandlerContext,
        batches: BatchWriter,
        ids: IdSource,
        *,
        lost_s: float = 60.0,
        brake: MassFailureGuard | None = None,
    ) -> None:
        self._bench, self._batches, self._ids = bench, batches, ids
        self._lost_ms, self._brake = round(lost_s * 1000), brake or MassFailureGuard()
        # When each agent was found to be lost, and with which others; it is held back once in its absence.
        self._since_ms: dict[AgentId, int] = {}
        self._losses: dict[AgentId, _MassLoss] = {}

    def clear(self) -> None:
        """Forget who is lost."""
        self._since_ms.clear()
        self._losses.clear()

    async def handle(self, seen: Cycle) -> bool:
        """Look at agents that are lost, and have been for long enough."""
        now_ms = self._bench.clock.monotonic_ms()
        moved = await self._end_what_is_over(seen.agents)
        lost = [one for one, info in seen.agents.items() if info.status is AgentStatus.LOST]
        self._since_ms = {one: self._since_ms.get(one, now_ms) for one in lost}
        self._losses = {one: loss for one, loss in self._losses.items() if one in self._since_ms}
        self._apply_brake(seen.agents, now_ms)
        held = [one for one, loss in self._losses.items() if now_ms < loss.until_ms]
        self._bench.telemetry.gauge("agents_held_back", len(held))
        await self._tell(held, now_ms)
        over = [one for one in lost if one not in held and now_ms - self._since_ms[one] >= self._lost_ms]
        for agent_id in over:
            moved |= await self._end_sessions(agent_id, self._alive_on(agent_id))
        return moved

    async def _end_what_is_over(self, agents: Mapping[AgentId, AgentInfo]) -> bool:
        """End sessions of which nothing can still run there, so that there is nothing to wait for.

        The agent was declared gone, or it came back without their kernels before it was lost.
        """
        moved = False
        for agent_id, info in agents.items():
            if info.status not in {AgentStatus.LOST, AgentStatus.TERMINATED}:
                continue
            found = self._alive_on(agent_id)
            if info.status is AgentStatus.LOST:
                found = [one for one in found if any(is_left_behind(kernel, info) for kernel in one.kernels)]
            moved |= bool(found) and await self._end_sessions(agent_id, found)
        return moved

    def _alive_on(self, agent_id: AgentId) -> list[SessionRecord]:
        """The sessions on an agent that have not begun to end."""
        live = self._bench.live
        found = (live.get(name) for name in live.sessions_on(agent_id))
        return [one for one in found if one is not None and Need.AN_END not in needs_of(one)]

    def _apply_brake(self, agents: Mapping[AgentId, AgentInfo], now_ms: int) -> None:
        brake = self._brake
        there = [one for one, info in agents.items() if info.status is not AgentStatus.TERMINATED]
        recent = [one for one, since in self._since_ms.items() if now_ms - since <= brake.window_s * 1000]
        on = len(there) >= brake.agents_min and len(recent) > brake.share * len(there)
        fresh = [one for one in recent if one not in self._losses] if on else []
        if not fresh:
            return
        told = f"{len(recent)} of {len(there)} agents fell silent together"
        detail = f"{told}; nothing is ended because of it for {brake.hold_s:g} s"
        loss = _MassLoss(now_ms + round(brake.hold_s * 1000), detail)
        self._losses.update(dict.fromkeys(fresh, loss))
        self._bench.telemetry.count("mass_losses_total")

    async def _tell(self, held: Collection[AgentId], now_ms: int) -> None:
        """Say, again and again, why sessions whose agent is lost are left alone."""
        for loss in {id(loss): loss for loss in self._losses.values()}.values():
            if loss.told_ms is not None and now_ms - loss.told_ms < _TELL_AGAIN_MS:
                continue
            agents = [one for one in held if self._losses[one] is loss]
            ids = dict.fromkeys(session.session_id for agent in agents for session in self._alive_on(agent))
            await self._bench.writer.note(list(ids), by_coordinator(BRAKED, loss.detail))
            loss.told_ms = now_ms

    async def _end_sessions(self, agent_id: AgentId, alive: Sequence[SessionRecord]) -> bool:
        admits = self._bench.quarantine.admits
        requeued = [one for one in alive if one.spec.on_agent_lost is LostPolicy.REQUEUE and admits(one.session_id)]
        ended = [one for one in alive if one.spec.on_agent_lost is not LostPolicy.REQUEUE]
        plans = self._bench.writer.decide(self.name, ended, lambda session: [_failed(session, agent_id)])
        moved = await self._bench.writer.move(self.name, plans)
        return bool(await self._requeue(requeued, agent_id) or moved)

    async def _requeue(self, sessions: Sequence[SessionRecord], agent_id: AgentId) -> bool:
        if not sessions:
            return False
        # Made before the transaction, which may be tried more than once.
        pairs = [(session, self._again(session.spec)) for session in sessions]

        async def work(unit: UnitOfWork, batch: Sequence[tuple[SessionRecord, SessionSpec]]) -> Sequence[SessionRecord]:
            return [record for session, spec in batch for record in await self._replace(unit, session, spec, agent_id)]

        written = await self._batches.write(pairs, work)
        for record in written.results:
            self._bench.live.put(record)
            self._bench.quarantine.recovered(record.session_id)
        for (session, _), error in written.failures:
            self._bench.live.doubt([session.session_id])
            if not isinstance(error, StaleVersion):  # somebody was faster; the next look decides again
                self._bench.quarantine.failed(session.session_id, handler=self.name, error=error)
        return bool(written.results)

    def _again(self, spec: SessionSpec) -> SessionSpec:
        """The same session as a new one."""
        kernels = tuple(
            replace(kernel, kernel_id=KernelId(self._ids.new("k")), nominated=None) for kernel in spec.kernels
        )
        return replace(spec, session_id=SessionId(self._ids.new("s")), kernels=kernels)

    async def _replace(
        self, unit: UnitOfWork, session: SessionRecord, spec: SessionSpec, agent_id: AgentId
    ) -> Sequence[SessionRecord]:
        """End a session and enqueue its successor, both or none; they, and who waits for it now.

        It ends for its owner at once, so that its name is free; what it holds stays taken.
        """
        step, before = _failed(session, agent_id), session.session_id
        moves = [KernelMove(one.kernel, one.trigger) for one in step.moves(session)]
        await unit.sessions.move_kernels(moves, step.change)
        detail = f"agent {agent_id} is lost; {spec.session_id} takes its place"
        ended = await unit.sessions.set_goal(before, Goal.FORCE, by_coordinator(AGENT_LOST, detail))
        change = by_coordinator("requeued", f"it takes the place of {before}, whose agent was lost")
        successor = await unit.sessions.enqueue(spec, change, in_place_of=before)
        waiting = [one.session_id for one in self._bench.live.all() if before in one.spec.dependencies]
        handed = await unit.sessions.page(SessionFilter(ids=waiting), limit=len(waiting)) if waiting else ()
        return ended, successor, *handed


def _failed(session: SessionRecord, agent_id: AgentId) -> SessionStep:
    there = tuple(one.kernel_id for one in session.kernels if one.agent_id == agent_id and one.status in ALIVE)
    return SessionStep(KernelTrigger.FAILED, by_coordinator(AGENT_LOST, f"agent {agent_id} is lost"), there)
