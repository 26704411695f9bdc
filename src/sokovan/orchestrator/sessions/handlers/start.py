"""Asks agents for kernels: on record first, then again until they begin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import ALIVE, KernelStatus, KernelTrigger
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.agent_requests import AgentReply, Notify
from sokovan.orchestrator.request_backoff import AgentRequestKey
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.session_cache import Need, needs_of
from sokovan.orchestrator.sessions.session_writer import SessionMoves, SessionStep, by_coordinator, by_report
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.wire.frames import CreateKernel

# What each kernel of a session is started with, given the addresses of agents. Pure.
Launches: TypeAlias = Callable[[SessionRecord, Mapping[AgentId, str]], Sequence[CreateKernel]]

CREATE = "create"
# The label of an agent under which kernels on other machines reach it.
ADDRESS_LABEL = "address"
REFUSED = "creation-refused"
_ASK_AGAIN_S = 10.0
# Refusals that pass: the agent has enrolled anew, looks at its machine, or still ends something. Agents of an earlier
# release also believe that they are drained until they dial again.
_PASSING = frozenset({"other-incarnation", "not-ready", "unknown-kernels", "attempt-live", "draining"})
_READY = frozenset(ALIVE[ALIVE.index(KernelStatus.PREPARED) :])


def creation_step(session: SessionRecord, *, ready: Collection[KernelId] = ()) -> SessionStep:
    """The creation of every kernel that is prepared, once there are enough.

    Those in `ready` are about to be.

    A gang is asked for when its last kernel is ready: nobody runs in vain because
    another one's image cannot be had.
    """
    prepared = [one for one in session.kernels if one.kernel_id in ready or one.status is KernelStatus.PREPARED]
    far = sum(one.kernel_id in ready or one.status in _READY for one in session.kernels)
    enough = far >= session.spec.gang_size
    return SessionStep(
        KernelTrigger.CREATION_REQUESTED, by_coordinator(), tuple(one.kernel_id for one in prepared) if enough else ()
    )


class StartKernels:
    """Asks for kernels. Asking twice starts once, so it is repeated until they begin."""

    name = "start"

    def __init__(self, bench: HandlerContext, launches: Launches) -> None:
        self._bench, self._launches = bench, launches

    async def handle(self, seen: Cycle) -> bool:
        """Put on record, ask, and hear what came of earlier requests."""
        bench = self._bench
        wanted = bench.live.count(Need.A_START) or bench.live.count(Need.NEWS)
        addresses = _addresses(seen) if wanted else {}
        plans = bench.writer.decide(
            self.name, bench.live.needing(Need.A_START), lambda session: self._steps(session, addresses)
        )
        moved = await bench.writer.move(self.name, plans)
        refused = await self._listen()
        self._ask(bench.live.needing(Need.NEWS), addresses, self._is_due)
        self._claim(seen)
        return bool(moved or refused)

    def _steps(self, session: SessionRecord, addresses: Mapping[AgentId, str]) -> tuple[SessionStep, ...]:
        step = creation_step(session)
        if step.kernels:
            self._launches(session, addresses)  # what cannot be launched is not put on record
        return (step,)

    def _claim(self, seen: Cycle) -> None:
        """Tell a restarted agent what is ours: it ends what nobody has asked it for."""
        live = self._bench.live
        for agent_id in seen.news.restarted:
            sessions = [session for one in live.sessions_on(agent_id) if (session := live.get(one)) is not None]
            running = [session for session in sessions if Need.AN_END not in needs_of(session)]
            self._ask(running, _addresses(seen), partial(self._is_claimed, agent_id))

    def _is_claimed(self, agent_id: AgentId, kernel: KernelRecord) -> bool:
        report = self._bench.reports.listed(kernel)
        there = kernel.agent_id == agent_id and report is not None and report.running
        return kernel.status is KernelStatus.RUNNING and there

    def _ask(
        self,
        sessions: Sequence[SessionRecord],
        addresses: Mapping[AgentId, str],
        is_due: Callable[[KernelRecord], bool],
    ) -> None:
        for session in sessions:
            due = [kernel for kernel in session.kernels if is_due(kernel)]
            if not due or not self._bench.quarantine.admits(session.session_id):
                continue
            try:
                launches = {launch.kernel_id: launch for launch in self._launches(session, addresses)}
                for kernel in due:
                    self._begin(kernel, launches[kernel.kernel_id])
            except Exception as error:  # noqa: BLE001  # one session must not stop the others
                self._bench.quarantine.failed(session.session_id, handler=self.name, error=error)

    def _is_due(self, kernel: KernelRecord) -> bool:
        """Whether its agent does not say that it has begun; one that died at it wants to be asked again."""
        report = self._bench.reports.listed(kernel)
        begun = report is not None and (report.running or report.exit_code is not None)
        return kernel.status is KernelStatus.CREATING and not begun and self._bench.errands.pauses.due(_key(kernel))

    def _begin(self, kernel: KernelRecord, launch: CreateKernel) -> None:
        key, gateway, incarnation = _key(kernel), self._bench.gateway, kernel.incarnation or 0
        self._bench.errands.begin(
            key,
            lambda: gateway.create_kernel(key.agent_id, incarnation, launch),
            tell=Notify.FAILURES,
            rest_s=_ASK_AGAIN_S,
        )

    async def _listen(self) -> bool:
        """Failures are for the session to hear; of success, the next report tells."""
        plans: dict[str, SessionMoves] = {}
        for answer in self._bench.errands.take(CREATE):
            session = self._awaiting(answer)
            if session is None or session.session_id in plans:
                continue
            if not isinstance(answer.error, AgentRefused):
                await self._bench.unanswered(self.name, answer, session.session_id)
            elif answer.error.reason in _PASSING:
                self._bench.live.doubt([session.session_id])
            else:
                change = by_report(REFUSED, answer.error.problem)
                kernels = (KernelId(answer.key.subject),)
                plans[session.session_id] = SessionMoves(session, (SessionStep(KernelTrigger.FAILED, change, kernels),))
        return bool(await self._bench.writer.move(self.name, list(plans.values())))

    def _awaiting(self, answer: AgentReply) -> SessionRecord | None:
        """The session that an answer is about, if the kernel still waits for it."""
        session_id = self._bench.live.session_of(KernelId(answer.key.subject))
        session = None if session_id is None else self._bench.live.get(session_id)
        for kernel in () if session is None else session.kernels:
            if kernel.kernel_id == answer.key.subject and kernel.status is KernelStatus.CREATING:
                return session
        return None


def _key(kernel: KernelRecord) -> AgentRequestKey:
    return AgentRequestKey(CREATE, kernel.agent_id or AgentId(""), kernel.kernel_id, kernel.attempt)


def _addresses(seen: Cycle) -> Mapping[AgentId, str]:
    """Where kernels of one session find each other; an agent without a label counts as this machine."""
    return {agent: info.labels[ADDRESS_LABEL] for agent, info in seen.agents.items() if ADDRESS_LABEL in info.labels}
