"""Ends sessions: stops their kernels, and frees those proved to be gone."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.agent_recovery import is_left_behind
from sokovan.orchestrator.agent_requests import REQUESTS_PER_ROUND, AgentReply, AgentRequestKey
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import alive_kernels, pending_kernels
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.orchestrator.sessions.session_writer import Freeing, SessionStep, by_coordinator, by_report

STOP = "stop"
KILL = "kill"
# A stop request is repeated after this, unless the agent reports the end earlier.
_REPEAT_S = 5.0
_SESSION_ENDS = by_coordinator("session-ends")


class TerminateSessions:
    """Stops kernels of terminating sessions, and frees those that are gone."""

    name = "terminate"

    def __init__(self, context: HandlerContext) -> None:
        self._context, self._sessions, self._writer = context, context.sessions, context.writer
        self._reports, self._requests, self._backoff = context.reports, context.requests, context.backoff
        self._quarantine, self._gateway = context.quarantine, context.gateway

    def clear(self) -> None:
        """Nothing to reset."""

    async def handle(self, cycle: CycleInput) -> bool:
        """Process late replies, send stop requests, wait briefly, free what is gone."""
        late = await self._take_replies()
        self._retry_changed(cycle)
        plans = self._writer.decide(self.name, self._sessions.needing(Need.TERMINATION), _stop_the_rest)
        moved = await self._writer.move(self.name, plans)
        freed = await self._free_proved(cycle)
        if self._request(cycle):
            await self._requests.settle()
        replied = await self._take_replies()
        return bool(late or moved or freed or replied)

    def _retry_changed(self, cycle: CycleInput) -> None:
        """Repeat the stop of kernels whose report changed: they may be gone now."""
        for kernel_id in cycle.diff.kernels:
            kernel = self._sessions.kernel(kernel_id)
            if kernel is not None and kernel.status is KernelStatus.TERMINATING:
                for kind in (STOP, KILL):
                    self._backoff.retry_now(_key(kind, kernel))

    async def _free_proved(self, cycle: CycleInput) -> bool:
        freeings: list[Freeing] = []
        for session in self._ending():
            by_proof: dict[FreeProof, list[KernelRecord]] = {}
            for kernel in _terminating(session):
                proof = self._proof(kernel, cycle.agents.get(kernel.agent_id or AgentId("")))
                if proof is not None:
                    by_proof.setdefault(proof, []).append(kernel)
            freeings += [Freeing(session.session_id, tuple(kernels), proof) for proof, kernels in by_proof.items()]
        return bool(await self._writer.free(self.name, freeings, by_coordinator("over")))

    def _ending(self) -> list[SessionRecord]:
        """The sessions that end, and those with kernels that end alone."""
        return self._sessions.needing(Need.TERMINATION) + self._sessions.needing(Need.KERNEL_END)

    def _proof(self, kernel: KernelRecord, agent: AgentInfo | None) -> FreeProof | None:
        """The proof, without a request, that nothing of a kernel runs; None if there is none."""
        if not kernel.sent:
            return FreeProof.NEVER_SENT
        if agent is not None and agent.status is AgentStatus.TERMINATED:
            return FreeProof.HOST_GONE
        if agent is not None and agent.status is AgentStatus.LOST and is_left_behind(kernel, agent):
            return FreeProof.INCARNATION_FENCED
        return FreeProof.INCARNATION_FENCED if self._reports.fenced(kernel) else None

    def _request(self, cycle: CycleInput) -> bool:
        """Send stop requests to agents; whether any was sent."""
        sent = False
        for session in self._ending():
            if not self._quarantine.admits(session.session_id):
                continue
            forced = session.goal is Goal.FORCE or session.status in SESSION.terminal
            kind, grace_s = (KILL, 0.0) if forced else (STOP, float(session.spec.stop_grace_s))
            left = REQUESTS_PER_ROUND
            for kernel in _terminating(session):
                if not left or not kernel.sent or not self._requests.may_begin(_key(kind, kernel)):
                    continue
                agent = cycle.agents.get(kernel.agent_id or AgentId(""))
                if kernel.agent_id is not None and self._proof(kernel, agent) is None:
                    sent |= self._begin(kernel, agent, kind, grace_s)
                    left -= 1
        return sent

    def _begin(self, kernel: KernelRecord, agent: AgentInfo | None, kind: str, grace_s: float) -> bool:
        gateway, key = self._gateway, _key(kind, kernel)
        # The current incarnation is asked, whichever one created the kernel.
        state = self._reports.state(key.agent_id)
        incarnation = max(state.incarnation if state else 0, agent.incarnation if agent else 0)

        async def stop() -> tuple[int, object]:
            gone = await gateway.stop_kernel(
                key.agent_id, incarnation, kernel.kernel_id, kernel.attempt, grace_s=grace_s
            )
            return incarnation, gone

        return self._requests.begin(key, stop)

    async def _take_replies(self) -> bool:
        """Free the kernels that agents have confirmed to be gone."""
        gone_kernels: dict[tuple[SessionId, FreeProof], list[KernelRecord]] = {}
        for reply in (*self._requests.take(STOP), *self._requests.take(KILL)):
            found = self._terminating_kernel(reply)
            if found is None:
                continue
            session, kernel = found
            if reply.error is not None:
                self._sessions.mark_stale([session.session_id])
                await self._context.request_failed(self.name, reply, session.session_id)
                continue
            incarnation, gone = reply.value
            if not gone.gone:
                self._backoff.hold(reply.key, _REPEAT_S)
                continue
            same = incarnation == kernel.incarnation
            proof = FreeProof.AGENT_TOMBSTONE if same else FreeProof.INCARNATION_FENCED
            code = kernel.exit_code if kernel.exit_code is not None else gone.exit_code
            gone_kernels.setdefault((session.session_id, proof), []).append(replace(kernel, exit_code=code))
        # Those of a session together, in one write of it.
        freeings = [Freeing(one, tuple(kernels), proof) for (one, proof), kernels in gone_kernels.items()]
        return bool(await self._writer.free(self.name, freeings, by_report("over")))

    def _terminating_kernel(self, reply: AgentReply) -> tuple[SessionRecord, KernelRecord] | None:
        """The kernel that a reply is about, if it is still terminating."""
        kernel = self._sessions.kernel(KernelId(reply.key.subject))
        session = None if kernel is None else self._sessions.get(kernel.session_id)
        if session is None or kernel is None or kernel.attempt != reply.key.attempt:
            return None
        return (session, kernel) if kernel.status is KernelStatus.TERMINATING else None


def _terminating(session: SessionRecord) -> list[KernelRecord]:
    return [kernel for kernel in session.kernels if kernel.status is KernelStatus.TERMINATING]


def _key(kind: str, kernel: KernelRecord) -> AgentRequestKey:
    return AgentRequestKey(kind, kernel.agent_id or AgentId(""), kernel.kernel_id, kernel.attempt)


def _stop_the_rest(session: SessionRecord) -> tuple[SessionStep, ...]:
    """Stop the kernels that are alive, and withdraw those that are pending."""
    if session.is_retried:  # all of its kernels wait again
        return ()
    return (
        SessionStep(KernelTrigger.STOP_REQUESTED, _SESSION_ENDS, alive_kernels(session)),
        SessionStep(KernelTrigger.WITHDRAWN, _SESSION_ENDS, pending_kernels(session)),
    )
