"""Ends sessions: asks their kernels to stop, and frees what is proved to be over."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import ALIVE, FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.agent_recovery import is_left_behind
from sokovan.orchestrator.agent_requests import AgentReply
from sokovan.orchestrator.request_backoff import AgentRequestKey
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.orchestrator.sessions.session_writer import Freeing, SessionStep, by_coordinator, by_report

STOP = "stop"
KILL = "kill"
# A kernel that is being stopped is asked about again after this, if its agent does not tell of its end before.
_ASK_AGAIN_S = 5.0
_SESSION_ENDS = by_coordinator("session-ends")


class TerminateSessions:
    """Stops kernels of sessions that end, and buries those that are over."""

    name = "terminate"

    def __init__(self, bench: HandlerContext) -> None:
        self._bench = bench

    async def handle(self, seen: Cycle) -> bool:
        """Hear late answers, ask, wait a moment, free what is over."""
        bench = self._bench
        late = await self._bury()
        self._hasten(seen)
        plans = bench.writer.decide(self.name, bench.live.needing(Need.AN_END), _stop_the_rest)
        moved = await bench.writer.move(self.name, plans)
        freed = await self._free_what_is_proved(seen)
        if self._ask(seen):
            await bench.errands.settle()
        buried = await self._bury()
        return bool(late or moved or freed or buried)

    def _hasten(self, seen: Cycle) -> None:
        """News of a kernel that is to end: its agent may now have a proof."""
        for kernel_id in seen.news.kernels:
            session = self._bench.live.get(self._bench.live.session_of(kernel_id) or SessionId(""))
            for kernel in () if session is None else session.kernels:
                if kernel.kernel_id == kernel_id and kernel.status is KernelStatus.TERMINATING:
                    for kind in (STOP, KILL):
                        self._bench.errands.pauses.hurry(_key(kind, kernel))

    async def _free_what_is_proved(self, seen: Cycle) -> bool:
        freeings: list[Freeing] = []
        for session in self._bench.live.needing(Need.AN_END):
            by_proof: dict[FreeProof, list[KernelRecord]] = {}
            for kernel in _dying(session):
                proof = self._proof(kernel, seen.agents.get(kernel.agent_id or AgentId("")))
                if proof is not None:
                    by_proof.setdefault(proof, []).append(kernel)
            freeings += [Freeing(session.session_id, tuple(kernels), proof) for proof, kernels in by_proof.items()]
        return bool(await self._bench.writer.free(self.name, freeings, by_coordinator("over")))

    def _proof(self, kernel: KernelRecord, agent: AgentInfo | None) -> FreeProof | None:
        """What proves, without asking anybody, that nothing of a kernel runs."""
        if not kernel.sent:
            return FreeProof.NEVER_SENT
        if agent is not None and agent.status is AgentStatus.TERMINATED:
            return FreeProof.HOST_GONE
        if agent is not None and agent.status is AgentStatus.LOST and is_left_behind(kernel, agent):
            return FreeProof.INCARNATION_FENCED
        return FreeProof.INCARNATION_FENCED if self._bench.reports.fenced(kernel) else None

    def _ask(self, seen: Cycle) -> bool:
        """Have agents end kernels; whether anybody was asked."""
        asked = False
        for session in self._bench.live.needing(Need.AN_END):
            if not self._bench.quarantine.admits(session.session_id):
                continue
            forced = session.goal is Goal.FORCE or session.status in SESSION.terminal
            for kernel in _dying(session):
                agent = seen.agents.get(kernel.agent_id or AgentId(""))
                if kernel.sent and kernel.agent_id is not None and self._proof(kernel, agent) is None:
                    grace_s = 0.0 if forced else float(session.spec.stop_grace_s)
                    asked |= self._begin(kernel, agent, KILL if forced else STOP, grace_s)
        return asked

    def _begin(self, kernel: KernelRecord, agent: AgentInfo | None, kind: str, grace_s: float) -> bool:
        gateway, key = self._bench.gateway, _key(kind, kernel)
        # Whoever answers for the machine now is asked, whichever incarnation created the kernel.
        state = self._bench.reports.state(key.agent_id)
        incarnation = max(state.incarnation if state else 0, agent.incarnation if agent else 0)

        async def stop() -> tuple[int, object]:
            gone = await gateway.stop_kernel(
                key.agent_id, incarnation, kernel.kernel_id, kernel.attempt, grace_s=grace_s
            )
            return incarnation, gone

        return self._bench.errands.begin(key, stop)

    async def _bury(self) -> bool:
        """Free the kernels that agents have said to be gone."""
        freeings: list[Freeing] = []
        for answer in (*self._bench.errands.take(STOP), *self._bench.errands.take(KILL)):
            found = self._dying_kernel(answer)
            if found is None:
                continue
            session, kernel = found
            if answer.error is not None:
                self._bench.live.doubt([session.session_id])
                await self._bench.unanswered(self.name, answer, session.session_id)
                continue
            incarnation, gone = answer.word
            if not gone.gone:
                self._bench.errands.pauses.rest(answer.key, _ASK_AGAIN_S)
                continue
            same = incarnation == kernel.incarnation
            proof = FreeProof.AGENT_TOMBSTONE if same else FreeProof.INCARNATION_FENCED
            code = kernel.exit_code if kernel.exit_code is not None else gone.exit_code
            freeings.append(Freeing(session.session_id, (replace(kernel, exit_code=code),), proof))
        return bool(await self._bench.writer.free(self.name, freeings, by_report("over")))

    def _dying_kernel(self, answer: AgentReply) -> tuple[SessionRecord, KernelRecord] | None:
        """The kernel that an answer is about, if it still waits for one."""
        session_id = self._bench.live.session_of(KernelId(answer.key.subject))
        session = None if session_id is None else self._bench.live.get(session_id)
        for kernel in () if session is None else _dying(session):
            if session is not None and (kernel.kernel_id, kernel.attempt) == (answer.key.subject, answer.key.attempt):
                return session, kernel
        return None


def _dying(session: SessionRecord) -> list[KernelRecord]:
    return [kernel for kernel in session.kernels if kernel.status is KernelStatus.TERMINATING]


def _key(kind: str, kernel: KernelRecord) -> AgentRequestKey:
    return AgentRequestKey(kind, kernel.agent_id or AgentId(""), kernel.kernel_id, kernel.attempt)


def _stop_the_rest(session: SessionRecord) -> tuple[SessionStep, ...]:
    """Kernels that never got a place leave; those alive are to stop."""
    waiting = tuple(one.kernel_id for one in session.kernels if one.status is KernelStatus.PENDING)
    alive = tuple(one.kernel_id for one in session.kernels if one.status in ALIVE)
    return (
        SessionStep(KernelTrigger.STOP_REQUESTED, _SESSION_ENDS, alive),
        SessionStep(KernelTrigger.WITHDRAWN, _SESSION_ENDS, waiting),
    )
