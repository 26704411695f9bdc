"""Ends sessions: stops their kernels, and frees those proved to be gone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.durations import duration_text_of
from sokovan.domain.lifecycle.eviction import (
    BOOKING_LEAD_MS,
    EVICTION_WITHDRAWN,
    NOTICE_GIVEN,
    ROOM_FREED,
    Checkpoint,
    EvictionReceipt,
    kernels_text,
    named_to,
)
from sokovan.domain.lifecycle.kernel import ALIVE, FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal
from sokovan.domain.owners.turns import Turns, slice_of
from sokovan.domain.records import Change, KernelRecord, SessionRecord
from sokovan.orchestrator.agent_recovery import is_left_behind
from sokovan.orchestrator.agent_requests import REQUESTS_PER_ROUND, AgentReply, AgentRequestKey
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import Exit, alive_kernels, ended_before_notice, pending_kernels
from sokovan.orchestrator.sessions.session_cache import REPORTED, Need
from sokovan.orchestrator.sessions.session_writer import (
    Freeing,
    SessionStep,
    by_coordinator,
    by_report,
    kernels_in,
    session_turns,
    user_of,
)
from sokovan.ports.repositories.sessions import Taker

STOP = "stop"
KILL = "kill"
# A stop request is repeated after this, unless the agent reports the end earlier.
_REPEAT_S = 5.0
_SESSION_ENDS = by_coordinator("session-ends")
# A reply, and the kernel of a session that it is about.
_Answer: TypeAlias = tuple[AgentReply, SessionRecord, KernelRecord]


class TerminateSessions:
    """Stops kernels of terminating sessions, and frees those that are gone."""

    name = "terminate"

    def __init__(self, context: HandlerContext) -> None:
        self._context, self._writer = context, context.writer
        self._sessions, self._reader = context.sessions, context.reader
        self._reports, self._requests, self._backoff = context.reports, context.requests, context.backoff
        self._quarantine, self._gateway = context.quarantine, context.gateway
        self._telemetry, self._bulk = context.telemetry, context.sessions.bulk
        self._unfinished, self._scheduler = context.sessions.unfinished, context.scheduler
        self._frees, self._stops = (session_turns() for _ in range(2))
        self._answers: Turns[_Answer] = Turns(user_of=lambda answer: user_of(answer[1]), size_of=lambda _answer: 1)

    def clear(self) -> None:
        """Forget whose turn it is."""
        for turns in (self._frees, self._stops, self._answers):
            turns.clear()

    async def handle(self, cycle: CycleInput) -> bool:
        """Process late replies, send stop requests, wait briefly, free what is gone."""
        late = await self._take_replies()
        self._retry_changed(cycle)
        announced = await self._announce()
        plans = self._writer.decide(self.name, self._sessions.needing(Need.TERMINATION), self._stop_the_rest)
        moved = await self._writer.move(self.name, plans)
        freed = await self._free_proved(cycle)
        if self._request(cycle):
            await self._requests.settle(STOP, KILL)
        replied = await self._take_replies()
        return bool(late or announced or moved or freed or replied)

    def _stop_the_rest(self, session: SessionRecord) -> tuple[SessionStep, ...]:
        """Stop the kernels that are alive, and withdraw those that are pending.

        Those of a large session that have ended by themselves move with the next reports.
        """
        if session.is_retried:  # all of its kernels wait again
            return ()
        alive = alive_kernels(session)
        if session.session_id in self._sessions.bulk.large:
            alive = tuple(one.kernel_id for one in session.kernels if one.status in ALIVE and not self._has_ended(one))
        return (
            SessionStep(KernelTrigger.STOP_REQUESTED, _SESSION_ENDS, alive),
            SessionStep(KernelTrigger.WITHDRAWN, _SESSION_ENDS, pending_kernels(session)),
        )

    def _has_ended(self, kernel: KernelRecord) -> bool:
        """Whether the agent reports the exit of a kernel, which is about to be recorded."""
        report, is_current = self._reports.looked_up(kernel)
        ended = report is not None and report.exit_code is not None and is_current
        return ended and kernel.status in REPORTED

    async def _announce(self) -> bool:
        """Withdraw evictions for sessions that wait no more; note of the others that their notice is given.

        Noted before the notice is sent, so that a later manager does not spare a kernel that has it. Of the withdrawal
        of a taker and the notice, the one that is committed first counts.
        """
        evicted = [session for session in self._ending() if _may_be_withdrawn(session)]
        plans = self._writer.decide(self.name, evicted, self._withdrawal_or_notice) if evicted else []
        return bool(await self._writer.move(self.name, plans))

    def _withdrawal_or_notice(self, session: SessionRecord) -> tuple[SessionStep, ...]:
        receipt = session.evictions[-1]
        if not receipt.for_booking and self._is_unread(
            receipt.for_session
        ):  # decided when it is read; no stop is requested until then
            self._sessions.mark_stale([receipt.for_session])
            return ()
        kernels = tuple(
            one.kernel_id
            for one in _terminating(session)
            if (receipt.whole or one.since_ms == receipt.at_ms) and one.exit_code is None
        )
        can_go_on, taker = len(kernels) == receipt.kernels, self._waiting_taker(session, receipt)
        if can_go_on and taker is None:
            named = receipt.taker_named_to(session.spec.owner.user) or "a session of another user"
            needs = "does not need" if receipt.for_booking else "does not wait for"
            detail = f"{named} {needs} its room any more; it runs on, and had no notice"
            return (SessionStep(KernelTrigger.SPARED, by_coordinator(EVICTION_WITHDRAWN, detail), kernels),)
        ending = tuple(one.kernel_id for one in _terminating(session))
        # A taker that is withdrawn before this is committed leaves its victim running: the notice is not given then.
        taker = taker if can_go_on else None
        return (SessionStep(KernelTrigger.NOTICED, by_coordinator(NOTICE_GIVEN), ending, taker=taker),)

    def _is_unread(self, taker_id: SessionId) -> bool:
        """Whether a session is not read yet, as many are not when a term begins, or has to be read again."""
        is_new = self._sessions.get(taker_id) is None and taker_id in self._reader.unread
        return is_new or taker_id in self._sessions.stale

    def _waiting_taker(self, session: SessionRecord, receipt: EvictionReceipt) -> Taker | None:
        """The session or booking that others were evicted for, if it still needs their room."""
        if not receipt.for_booking:
            return self._waiting_session(receipt.for_session)
        booking = next((one for one in self._scheduler.bookings() if one.name == receipt.for_booking), None)
        if booking is None or booking.from_ms > receipt.evict_at_ms + BOOKING_LEAD_MS:
            return None
        agents = {kernel.agent_id for kernel in _terminating(session)}
        is_there = booking.hypernode is not None or not agents.isdisjoint(map(AgentId, booking.agents))
        return booking if is_there else None

    def _waiting_session(self, taker_id: SessionId) -> SessionRecord | None:
        """A session, if it still waits for the room that others were evicted for."""
        taker = self._sessions.get(taker_id)
        if taker is None or taker.goal is not Goal.RUN or not pending_kernels(taker):
            return None
        return taker if len(alive_kernels(taker)) < taker.spec.gang_size else None

    def _retry_changed(self, cycle: CycleInput) -> None:
        """Repeat the stop of kernels whose report changed: they may be gone now."""
        for kernel_id in cycle.diff.kernels:
            kernel = self._sessions.kernel(kernel_id)
            if kernel is not None and kernel.status is KernelStatus.TERMINATING:
                for kind in (STOP, KILL):
                    self._backoff.retry_now(_key(kind, kernel))

    async def _free_proved(self, cycle: CycleInput) -> bool:
        freeings: list[Freeing] = []

        def free(session: SessionRecord, limit: int) -> int:
            by_proof: dict[FreeProof, list[KernelRecord]] = {}
            left = limit
            for kernel in _terminating(session):
                proof = self._proof(kernel, cycle.agents.get(kernel.agent_id or AgentId("")))
                if proof is not None and not left:
                    self._sessions.unfinished[session.session_id] = None
                    break
                if proof is not None:
                    by_proof.setdefault(proof, []).append(kernel)
                    left -= 1
            freeings.extend(Freeing(session.session_id, tuple(some), proof) for proof, some in by_proof.items())
            return limit - left

        ending = self._ending()
        later = self._frees.take(ending, budget=slice_of(sum(map(kernels_in, ending))), spend=free)
        self._unfinished.update(dict.fromkeys(session.session_id for session in later))
        return await self._free(freeings, by_coordinator("over"))

    async def _free(self, freeings: Sequence[Freeing], change: Change) -> bool:
        """Free kernels that are gone; those for whom they were evicted get a receipt."""
        known = [self._sessions.get(one.session_id) for one in freeings]
        evicted = {one.session_id for one in known if one is not None and _open_receipt(one) is not None}
        freed = await self._writer.free(self.name, freeings, change)
        for session in freed:
            if session.session_id in evicted and _open_receipt(session) is None:
                await self._tell_taker(session, session.evictions[-1])
        return bool(freed)

    async def _tell_taker(self, session: SessionRecord, receipt: EvictionReceipt) -> None:
        """Note in the history of a taker what the end of its victim cost."""
        lasted_ms = (receipt.ended_ms or receipt.at_ms) - receipt.at_ms
        self._telemetry.observe("eviction_seconds", lasted_ms / 1000, action=receipt.action)
        self._telemetry.count("evicted_slot_seconds_total", receipt.lost_s, action=receipt.action)
        if receipt.for_booking:  # it has no history: it shows the receipts of the evicted
            return
        spec = session.spec
        named = named_to(receipt.for_user, user=spec.owner.user, session_id=spec.session_id, name=spec.name)
        whose = "its" if receipt.kernels == 1 else "their"
        lasted = duration_text_of(max(1, lasted_ms))  # not 0s
        detail = (
            f"{kernels_text(receipt.kernels)} of {named} ended {lasted} after {whose} notice; "
            f"{receipt.lost_s} slot seconds of its work since {receipt.since()} were lost"
        )
        await self._writer.note([receipt.for_session], by_coordinator(ROOM_FREED, detail))

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
        sent = 0

        def stop(session: SessionRecord, limit: int) -> int:
            nonlocal sent
            if not self._quarantine.admits(session.session_id) or _may_be_withdrawn(session):
                return 0
            forced = session.goal is Goal.FORCE or session.status in SESSION.terminal
            kind, grace_s = (KILL, 0.0) if forced else (STOP, _grace_s(session))
            notice = "" if forced else _notice(session)
            left = limit
            for kernel in _terminating(session):
                if not left:
                    break
                if not kernel.sent or not self._requests.may_begin(_key(kind, kernel)):
                    continue
                agent = cycle.agents.get(kernel.agent_id or AgentId(""))
                if kernel.agent_id is not None and self._proof(kernel, agent) is None:
                    sent += self._begin(kernel, agent, kind, grace_s=grace_s, notice=notice)
                    left -= 1
            return limit - left

        later = self._stops.take(self._ending(), budget=REQUESTS_PER_ROUND, spend=stop)
        self._unfinished.update(dict.fromkeys(session.session_id for session in later))
        return sent > 0

    def _begin(self, kernel: KernelRecord, agent: AgentInfo | None, kind: str, *, grace_s: float, notice: str) -> bool:
        gateway, key = self._gateway, _key(kind, kernel)
        # The current incarnation is asked, whichever one created the kernel.
        state = self._reports.state(key.agent_id)
        incarnation = max(state.incarnation if state else 0, agent.incarnation if agent else 0)

        async def stop() -> tuple[int, object]:
            gone = await gateway.stop_kernel(
                key.agent_id, incarnation, kernel.kernel_id, kernel.attempt, grace_s=grace_s, notice=notice
            )
            return incarnation, gone

        return self._requests.begin(key, stop)

    async def _take_replies(self) -> bool:
        """Free the kernels that agents have confirmed to be gone."""
        gone_kernels: dict[tuple[SessionId, FreeProof], list[KernelRecord]] = {}
        saved: dict[SessionId, dict[KernelId, Checkpoint]] = {}
        exits: dict[SessionId, dict[KernelId, Exit]] = {}
        for reply, session, kernel in self._replies_in_turn():
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
            if gone.by_itself and code is not None and _open_receipt(session) is not None:
                exits.setdefault(session.session_id, {})[kernel.kernel_id] = Exit(code)
            report = self._reports.listed(kernel)
            checkpoint = gone.checkpoint or (None if report is None else report.checkpoint)
            if checkpoint is not None:
                saved.setdefault(session.session_id, {})[kernel.kernel_id] = checkpoint
        # Those of a session together, in one write of it.
        freeings = [
            Freeing(
                one,
                tuple(kernels),
                proof,
                checkpoints=saved.get(one, {}),
                exits={kernel: own.code for kernel, own in exits.get(one, {}).items()},
                completed=self._completed(one, exits.get(one, {})),
            )
            for (one, proof), kernels in gone_kernels.items()
        ]
        return await self._free(freeings, by_report("over"))

    def _replies_in_turn(self) -> list[_Answer]:
        """The replies that this run handles, with what they are about; the others are put back."""
        replies = [reply for kind in (STOP, KILL) for reply in self._requests.take(kind, leave=self._is_hidden)]
        found = [(reply, *about) for reply in replies if (about := self._terminating_kernel(reply)) is not None]
        taken: list[_Answer] = []

        def handle(one: _Answer, _limit: int) -> int:
            taken.append(one)
            return 1

        later = self._answers.take(found, budget=slice_of(len(found)), spend=handle)
        self._requests.put_back(reply for reply, _, _ in later)
        return taken

    def _completed(self, session_id: SessionId, exits: Mapping[KernelId, Exit]) -> tuple[KernelId, ...]:
        """The kernels with which an evicted session had ended before its notice."""
        session = self._sessions.get(session_id)
        receipt = None if session is None else _open_receipt(session)
        if session is None or receipt is None or not exits:
            return ()
        # Kernels that are gone already had ended by themselves as well.
        earlier = {KernelId(kernel): Exit(code) for kernel, code in receipt.exits}
        return ended_before_notice(session, {**earlier, **exits})

    def _is_hidden(self, reply: AgentReply) -> bool:
        kernel = self._sessions.kernel(KernelId(reply.key.subject))
        return kernel is not None and self._bulk.hides(kernel.session_id)

    def _terminating_kernel(self, reply: AgentReply) -> tuple[SessionRecord, KernelRecord] | None:
        """The kernel that a reply is about, if it is still terminating."""
        kernel = self._sessions.kernel(KernelId(reply.key.subject))
        session = None if kernel is None else self._sessions.get(kernel.session_id)
        if session is None or kernel is None or kernel.attempt != reply.key.attempt:
            return None
        return (session, kernel) if kernel.status is KernelStatus.TERMINATING else None


def _terminating(session: SessionRecord) -> list[KernelRecord]:
    return [kernel for kernel in session.kernels if kernel.status is KernelStatus.TERMINATING]


def _may_be_withdrawn(session: SessionRecord) -> bool:
    """Whether an eviction is under way of which the kernels know nothing yet.

    One that is stopped meanwhile is not spared.
    """
    if session.goal is not Goal.RUN or session.cause is not None:
        return False
    return bool(session.evictions) and session.evictions[-1].may_be_withdrawn


def _grace_s(session: SessionRecord) -> float:
    """The time from the notice to the end: that of an eviction under way, or the session's own."""
    receipt = _open_receipt(session)
    own_s = float(session.spec.stop_grace_s)
    return own_s if receipt is None else min(own_s, (receipt.evict_at_ms - receipt.at_ms) / 1000)


def _open_receipt(session: SessionRecord) -> EvictionReceipt | None:
    """The last eviction of a session, if its kernels have not ended yet."""
    receipt = session.evictions[-1] if session.evictions else None
    return receipt if receipt is not None and receipt.ended_ms is None else None


def _notice(session: SessionRecord) -> str:
    """The text for the kernels of a session that are evicted; empty without an eviction under way."""
    receipt = _open_receipt(session)
    if receipt is None:
        return ""
    return json.dumps(receipt.notice(user=session.spec.owner.user, returns=session.spec.returns))


def _key(kind: str, kernel: KernelRecord) -> AgentRequestKey:
    return AgentRequestKey(kind, kernel.agent_id or AgentId(""), kernel.kernel_id, kernel.attempt)
