"""Requests kernel creation from agents: recorded first, repeated until they start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import islice

from sokovan.domain.cluster.agent import address_of
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import ALIVE, KernelStatus, KernelTrigger
from sokovan.domain.problems import FolderRefused
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.agent_requests import REPEAT_S, REQUESTS_PER_ROUND, AgentReply, AgentRequestKey, Notify
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import failed_start, give_up_steps
from sokovan.orchestrator.sessions.intake.shape_validators import closed_folders
from sokovan.orchestrator.sessions.intake.validation_context import is_alone
from sokovan.orchestrator.sessions.launch import launches
from sokovan.orchestrator.sessions.session_cache import UNPREPARED, Need, needs_of
from sokovan.orchestrator.sessions.session_writer import (
    SessionMoves,
    SessionStep,
    by_coordinator,
    by_report,
    session_turns,
)
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.runtime import PathUnavailable, ProgramNotFound
from sokovan.ports.secrets import SecretBox
from sokovan.wire.frames import CreateKernel

CREATE = "create"
REFUSED = "creation-refused"
FOLDER_REFUSED = FolderRefused.code
PATH_UNAVAILABLE = PathUnavailable.code
# Temporary refusals: the agent has re-enrolled, scans its machine, or is still ending something. Agents of an earlier
# release also believe that they are drained until they reconnect.
TEMPORARY = frozenset({"other-incarnation", "not-ready", "unknown-kernels", "attempt-live", "draining"})
_WAITING = UNPREPARED | {KernelStatus.PENDING}
_READY = frozenset(ALIVE[ALIVE.index(KernelStatus.PREPARED) :])


def creation_step(session: SessionRecord, *, ready: Collection[KernelId] = ()) -> SessionStep:
    """Request the creation of all prepared kernels once the gang is complete.

    Kernels in `ready` are about to be prepared. A gang starts with its last kernel, so that
    none runs in vain because the image of another is unavailable; none starts before the
    kernel of rank 0, where all of them meet.
    """
    prepared = [one for one in session.kernels if one.kernel_id in ready or one.status is KernelStatus.PREPARED]
    ready_count = sum(one.kernel_id in ready or one.status in _READY for one in session.kernels)
    complete = ready_count >= session.spec.gang_size and not any(
        one.rank == 0 and one.status in _WAITING and one.kernel_id not in ready for one in session.kernels
    )
    return SessionStep(
        KernelTrigger.CREATION_REQUESTED, by_coordinator(), tuple(one.kernel_id for one in prepared) if complete else ()
    )


class StartKernels:
    """Requests kernels; creation is idempotent, so it is repeated until they start."""

    name = "start"

    def __init__(self, context: HandlerContext, secrets: SecretBox) -> None:
        self._secrets = secrets
        self._context, self._sessions, self._writer = context, context.sessions, context.writer
        self._reports, self._requests, self._backoff = context.reports, context.requests, context.backoff
        self._quarantine, self._gateway = context.quarantine, context.gateway
        self._store, self._unfinished = context.store, context.sessions.unfinished
        self._turns = session_turns()
        self._is_alone = False

    def clear(self) -> None:
        """Forget whose turn it is."""
        self._turns.clear()

    async def handle(self, cycle: CycleInput) -> bool:
        """Record and send creations, and process replies to earlier requests."""
        starting = self._sessions.count(Need.CREATION) or self._sessions.count(Need.CONFIRMATION)
        addresses = _addresses(cycle) if starting else {}
        refused = await self._refuse_closed_folders()
        plans = self._writer.decide(
            self.name, self._sessions.needing(Need.CREATION), lambda session: self._steps(session, addresses)
        )
        moved = await self._writer.move(self.name, plans)
        refused |= await self._take_replies()
        self._request(self._sessions.needing(Need.CONFIRMATION), addresses, self._is_due)
        self._claim(cycle)
        return bool(moved or refused)

    async def _refuse_closed_folders(self) -> bool:
        """End sessions that name folders which were open to the only user, and are not any more."""
        starting = [*self._sessions.needing(Need.CREATION), *self._sessions.needing(Need.CONFIRMATION)]
        owning = {session.session_id: session for session in starting if session.spec.owns_folders}
        self._is_alone = bool(owning) and await self._store.read(is_alone)
        if not owning or self._is_alone:
            return False
        specs = [session.spec for session in owning.values()]
        problems = await self._store.read(lambda unit: closed_folders(unit, specs))
        plans = self._writer.decide(
            self.name,
            [owning[session_id] for session_id in problems],
            lambda session: give_up_steps(session, by_coordinator(FOLDER_REFUSED, problems[session.session_id])),
            all_at_once=True,
        )
        return bool(await self._writer.move(self.name, plans))

    def _steps(self, session: SessionRecord, addresses: Mapping[AgentId, str]) -> tuple[SessionStep, ...]:
        step = creation_step(session)
        if step.kernels:
            wanted = frozenset(step.kernels[:REQUESTS_PER_ROUND])
            first = [kernel for kernel in session.kernels if kernel.kernel_id in wanted]
            # A session that cannot be launched is not recorded.
            launches(session, addresses, only=first, secrets=self._secrets)
        return (step,)

    def _claim(self, cycle: CycleInput) -> None:
        """Repeat creations to a restarted agent, which ends kernels that are not requested."""
        for agent_id in cycle.diff.restarted:
            ids = dict.fromkeys(kernel.session_id for kernel in self._sessions.kernels_on(agent_id))
            found = (self._sessions.get(one) for one in ids)
            sessions = [session for session in found if session is not None]
            running = [session for session in sessions if Need.TERMINATION not in needs_of(session)]
            self._request(running, _addresses(cycle), partial(self._is_running_on, agent_id))

    def _is_running_on(self, agent_id: AgentId, kernel: KernelRecord) -> bool:
        report = self._reports.listed(kernel)
        there = kernel.agent_id == agent_id and report is not None and report.running
        return kernel.status is KernelStatus.RUNNING and there

    def _request(
        self,
        sessions: Sequence[SessionRecord],
        addresses: Mapping[AgentId, str],
        is_due: Callable[[KernelRecord], bool],
    ) -> None:
        def begin(session: SessionRecord, limit: int) -> int:
            due = list(islice((kernel for kernel in session.kernels if is_due(kernel)), limit))
            if not due or not self._quarantine.admits(session.session_id):
                return 0
            try:
                found = launches(session, addresses, outputs, only=due, secrets=self._secrets, is_alone=self._is_alone)
                for kernel, launch in zip(due, found, strict=True):
                    # The reply to the last one of a full round wakes the next round.
                    is_cut = kernel is due[-1] and len(due) == limit
                    self._begin(kernel, launch, Notify.ALL if is_cut else Notify.FAILURES)
            except Exception as error:  # noqa: BLE001  # one session must not stop the others
                self._quarantine.failed(session.session_id, handler=self.name, error=error)
            return len(due)

        outputs = self._context.timing.current.outputs
        left = self._turns.take(sessions, budget=REQUESTS_PER_ROUND, spend=begin)
        self._unfinished.update(dict.fromkeys(session.session_id for session in left))

    def _is_due(self, kernel: KernelRecord) -> bool:
        """Whether its agent has reported neither start nor end, and no backoff applies."""
        if kernel.status is not KernelStatus.CREATING:
            return False
        report = self._reports.listed(kernel)
        begun = report is not None and (report.running or report.exit_code is not None)
        return not begun and self._requests.may_begin(_key(kernel))

    def _begin(self, kernel: KernelRecord, launch: CreateKernel, notify: Notify) -> None:
        key, gateway, incarnation = _key(kernel), self._gateway, kernel.incarnation or 0
        self._requests.begin(
            key,
            lambda: gateway.create_kernel(key.agent_id, incarnation, launch),
            notify=notify,
            hold_s=REPEAT_S,
        )

    async def _take_replies(self) -> bool:
        """Process failures; a success shows in the next report."""
        plans: dict[str, SessionMoves] = {}
        for reply in self._requests.take(CREATE):
            session = self._creating_session(reply)
            if session is None or session.session_id in plans:
                continue
            if not isinstance(reply.error, AgentRefused):
                await self._context.request_failed(self.name, reply, session.session_id)
            elif reply.error.reason in TEMPORARY:
                self._sessions.mark_stale([session.session_id])
            else:
                code = PATH_UNAVAILABLE if reply.error.reason == PathUnavailable.code else REFUSED
                change = by_report(code, reply.error.problem)
                step = SessionStep(KernelTrigger.FAILED, change, (KernelId(reply.key.subject),))
                fault = reply.error.reason == ProgramNotFound.code  # the user's, on every agent
                plans[session.session_id] = SessionMoves(session, (step if fault else failed_start(session, step),))
        return bool(await self._writer.move(self.name, list(plans.values())))

    def _creating_session(self, reply: AgentReply) -> SessionRecord | None:
        """The session of the kernel that a reply is about, if it is still CREATING."""
        kernel = self._sessions.kernel(KernelId(reply.key.subject))
        creating = kernel is not None and kernel.status is KernelStatus.CREATING
        return self._sessions.get(kernel.session_id) if kernel is not None and creating else None


def _key(kernel: KernelRecord) -> AgentRequestKey:
    return AgentRequestKey(CREATE, kernel.agent_id or AgentId(""), kernel.kernel_id, kernel.attempt)


def _addresses(cycle: CycleInput) -> Mapping[AgentId, str]:
    """Addresses of agents; those without one count as this machine."""
    found = {agent: address_of(info.labels) for agent, info in cycle.agents.items()}
    return {agent: address for agent, address in found.items() if address}
