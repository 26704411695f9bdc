"""Scripted agents for tests: the real state machine over a simulated machine.

Admission, tombstones and journal are real; machine and link are simulated. A test may
lose a request, an answer, a heartbeat or a whole agent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from itertools import count

from sokovan.agent.fake.in_memory_agent import InMemoryAgent
from sokovan.agent.journal_records import JournalRecord, JournalState, KernelKey, replayed
from sokovan.agent.kernel_table import KernelTable, Token, reports, restored
from sokovan.agent.messages import (
    CreateRequested,
    Event,
    ForgetRequested,
    ImageProgressed,
    LinkClosed,
    LinkOpened,
    Observed,
    PrepareRequested,
    StartFinished,
    StopRequested,
)
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.domain.records import Device
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.agent_registry import AgentAdmission, AgentRegistry, AgentRejection, EnrolmentRequest
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageReport, ImageState
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelExecution, KernelState, KernelUse, LogPart, Observation
from sokovan.wire.frames import CreateKernel

CAPACITY: Mapping[str, int] = {"cpu": 8000, "mem": 32 << 30, "cuda.device": 4}
_STOPPED, _KILLED = 143, 137


class Fault(StrEnum):
    """Faults of a request."""

    REQUEST_LOST = auto()
    ANSWER_LOST = auto()
    HANGS = auto()


@dataclass(slots=True)
class Acted:
    """One kernel on the machine of an acting agent."""

    launch: CreateKernel
    state: KernelState
    exit_code: int | None = None
    reason: str = ""
    idle_s: int | None = None
    checkpoint: Checkpoint | None = None


@dataclass(slots=True)
class AgentScript:
    """How an agent and its kernels behave.

    `exits` returns the exit code of a kernel that ends as soon as it begins, or None. A
    `slow` start waits for `begin`. An image in `pulls` waits for `pulled`; one in
    `broken` fails with this message. A `stubborn` kernel ends only by force.
    """

    exits: Callable[[CreateKernel], int | None] = lambda _launch: None
    slow: bool = False
    start_problem: str = ""
    start_problem_of: Callable[[CreateKernel], str] = lambda _launch: ""
    pulls: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)
    stubborn: bool = False


class ActingAgent(InMemoryAgent):
    """One agent and its simulated machine."""

    def __init__(self, agent_id: str, *, slots: Mapping[str, int], clock: Clock, registry: AgentRegistry) -> None:
        self.script = AgentScript()
        self.faults: dict[str, Fault] = {}
        self.labels: dict[str, str] = {}
        self.linked = self.speaking = False
        self.machine: dict[KernelKey, Acted] = {}
        self.requests: Counter[str] = Counter()
        self.started: Counter[KernelKey] = Counter()
        self._slots, self._clock, self._registry = ResourceSlot(slots), clock, registry
        self._devices = tuple(Device(f"gpu{number}", "cuda.device") for number in range(slots.get("cuda.device", 0)))
        self._journal = JournalState()
        super().__init__(self._empty_table(AgentId(agent_id)))
        self._numbers, self._sequence = count(1), 0
        self._waiting: dict[Token, asyncio.Future[GoneProof | ImageReport | None]] = {}
        self._is_report_due = False

    def running(self) -> list[str]:
        """The kernels that run on the machine, by id."""
        return sorted(key.kernel_id for key, acted in self.machine.items() if acted.state is not KernelState.EXITED)

    async def connect(self) -> AgentAdmission | AgentRejection:
        """Connect to the manager, with the current incarnation or for a new one."""
        self.look()
        verdict = await self._registry.admit(
            EnrolmentRequest(
                agent_id=self.agent_id,
                incarnation=self.incarnation,
                slots=self._slots,
                devices=self._devices,
                labels=dict(self.labels),
                kernels=tuple((report.kernel_id, report.attempt) for report in reports(self.table)),
            )
        )
        if isinstance(verdict, AgentAdmission):
            self.linked = self.speaking = True
            self.apply(LinkOpened(1, verdict.incarnation))
            await self.beat()
        return verdict

    async def beat(self) -> None:
        """Send a heartbeat, if the agent is linked."""
        self._is_report_due = False
        if self.linked and self.speaking:
            self._sequence += 1
            faults = self.table.device_faults
            state = AgentState(self.agent_id, self.incarnation, self._sequence, reports(self.table), faults=faults)
            await self._registry.heartbeat(self.agent_id, state, tuple(self.table.images.values()))

    def goes_silent(self) -> None:
        """Cut the link; the kernels keep running."""
        self.linked = self.speaking = False
        self.apply(LinkClosed(1))
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(AgentUnreachable(agent_id=self.agent_id, problem="the link was closed"))
        self._waiting.clear()

    async def restart(self, *, journal_lost: bool = False) -> AgentAdmission | AgentRejection:
        """Restart the agent process; the machine keeps running."""
        self.goes_silent()
        self._journal = JournalState() if journal_lost else self._journal
        self.table = restored(self._empty_table(self.agent_id), self._journal)
        return await self.connect()

    def loses_its_machine(self) -> None:
        """Lose the machine with all its state."""
        self.goes_silent()
        self.machine.clear()
        self._journal = JournalState()
        self.table = self._empty_table(self.agent_id)

    async def begin(self, kernel_id: str) -> None:
        """Finish a slow start."""
        key, acted = self._acted(kernel_id)
        acted.state = KernelState.RUNNING
        self.apply(StartFinished(key))
        await self._seen()

    async def ends(self, kernel_id: str, code: int = 0, reason: str = "") -> None:
        """End a kernel by itself."""
        _, acted = self._acted(kernel_id)
        acted.state, acted.exit_code, acted.reason = KernelState.EXITED, code, reason
        await self._seen()

    def saves(self, kernel_id: str, step: int | None = None, *, done: bool = False) -> None:
        """Have a kernel report a checkpoint; the next heartbeat has it."""
        _, acted = self._acted(kernel_id)
        acted.checkpoint = Checkpoint(self._clock.now_ms(), step, done)

    async def pulled(self, image: str, problem: str = "", *, so_far: str = "") -> None:
        """Finish a pull, with or without a problem; or report its progress."""
        if so_far:
            report = ImageReport(image, ImageState.PULLING, so_far)
        else:
            self.script.pulls.discard(image)
            report = ImageReport(image, ImageState.FAILED if problem else ImageState.READY, problem)
        self.apply(ImageProgressed(report))
        await self._flush()

    async def ask(self, kind: str, event: Callable[[Token], Event]) -> GoneProof | ImageReport | None:
        """Send a request from the manager, subject to the configured faults."""
        self.requests[kind] += 1
        fault = self.faults.get(kind)
        if not self.linked or fault is Fault.REQUEST_LOST:
            raise AgentUnreachable(agent_id=self.agent_id, problem="it did not answer in time")
        if fault is Fault.HANGS:
            await asyncio.get_running_loop().create_future()
        token = Token(1, next(self._numbers))
        answer: asyncio.Future[GoneProof | ImageReport | None] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        try:
            self.apply(event(token))
            await self._flush()
            if fault is Fault.ANSWER_LOST:
                raise AgentUnreachable(agent_id=self.agent_id, problem="its answer was lost")
            return await answer
        finally:
            self._waiting.pop(token, None)
            answer.cancel()

    def _empty_table(self, agent_id: AgentId) -> KernelTable:
        units = {device.device_id: device.units for device in self._devices}
        return KernelTable(agent_id, self._slots, units)

    def _acted(self, kernel_id: str) -> tuple[KernelKey, Acted]:
        # The last attempt: earlier ones are listed until they are forgotten.
        return max(((key, acted) for key, acted in self.machine.items() if key.kernel_id == kernel_id), key=_attempt)

    async def _seen(self) -> None:
        self.look()
        await self._flush()

    async def _flush(self) -> None:
        if self._is_report_due:
            await self.beat()

    def look(self) -> None:
        """Observe the machine."""
        observations = tuple(
            Observation(
                key.kernel_id,
                key.attempt,
                acted.state,
                exit_code=acted.exit_code,
                reason=acted.reason,
                idle_s=acted.idle_s if acted.launch.watch_idle else None,
                checkpoint=acted.checkpoint,
            )
            for key, acted in sorted(self.machine.items())
        )
        self.apply(Observed(observations, begun=self.table.tick, now_ms=self._clock.now_ms()))

    def _record(self, records: Sequence[JournalRecord]) -> None:
        """Keep the records in the journal."""
        self._journal = replayed(self._journal, records)

    def _send_heartbeat(self) -> None:
        """Send a heartbeat at the next flush."""
        self._is_report_due = True

    def _answer(self, token: Token, outcome: GoneProof | ImageReport | AgentRefused | None) -> None:
        """Complete the request of this token, unless it was given up."""
        answer = self._waiting.get(token)
        if answer is None or answer.done():
            return
        if isinstance(outcome, AgentRefused):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    def _start_kernel(self, launch: CreateKernel) -> None:
        """Start a kernel as the script says."""
        key = KernelKey.of(launch)
        problem = self.script.start_problem or self.script.start_problem_of(launch)
        if problem:
            self.apply(StartFinished(key, problem=problem, code="runtime-failure"))
            return
        self.started[key] += 1
        acted = self.machine[key] = Acted(launch, KernelState.STARTING)
        if self.script.slow:
            return
        code = self.script.exits(launch)
        acted.state = KernelState.RUNNING if code is None else KernelState.EXITED
        acted.exit_code = code
        self.apply(StartFinished(key))
        self.look()

    def _forget_kernel(self, key: KernelKey) -> None:
        """Remove an ended kernel."""
        self.machine.pop(key, None)

    def _stop_kernel(self, key: KernelKey, grace_s: float) -> None:
        """Stop a kernel as the script says."""
        acted = self.machine.get(key)
        if acted is None or acted.state is KernelState.EXITED or (self.script.stubborn and grace_s > 0):
            return
        acted.state, acted.exit_code = KernelState.EXITED, _STOPPED if grace_s > 0 else _KILLED
        self.look()

    def _prepare_image(self, image: str) -> None:
        """Prepare an image as the script says."""
        if image in self.script.broken:
            report = ImageReport(image, ImageState.FAILED, self.script.broken[image])
        else:
            report = ImageReport(image, ImageState.PULLING if image in self.script.pulls else ImageState.READY)
        self.apply(ImageProgressed(report))


def _attempt(entry: tuple[KernelKey, Acted]) -> int:
    return entry[0].attempt


class ActingAgents:
    """The AgentGateway port over acting agents. `before` is called for each request.

    `notices` are the last ones of evicted kernels.
    """

    def __init__(self, registry: AgentRegistry, clock: Clock) -> None:
        self._registry, self._clock = registry, clock
        self.all: dict[AgentId, ActingAgent] = {}
        self.notices: dict[KernelId, str] = {}
        self.before: Callable[[str, AgentId], None] = lambda _kind, _agent: None

    async def join(self, agent_id: str, *, slots: Mapping[str, int] = CAPACITY) -> ActingAgent:
        """Add a machine, whose agent enrols."""
        agent = ActingAgent(agent_id, slots=slots, clock=self._clock, registry=self._registry)
        self.all[agent.agent_id] = agent
        await agent.connect()
        return agent

    async def beat(self) -> None:
        """Have every agent observe its machine and send a heartbeat, if linked."""
        for agent in self.all.values():
            agent.look()
            await agent.beat()

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port."""
        result = await self._ask("prepare", agent_id, lambda token: PrepareRequested(token, incarnation, image))
        if not isinstance(result, ImageReport):
            raise TypeError(f"an agent answered with {result!r}")
        return result

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        await self._ask("create", agent_id, lambda token: CreateRequested(token, incarnation, launch))

    async def stop_kernel(
        self,
        agent_id: AgentId,
        incarnation: int,
        kernel_id: KernelId,
        attempt: int,
        *,
        grace_s: float,
        notice: str = "",
    ) -> GoneProof:
        """See the port."""
        key = KernelKey(kernel_id, attempt)
        if notice:
            self.notices[kernel_id] = notice
        result = await self._ask(
            "stop", agent_id, lambda token: StopRequested(token, incarnation, key, grace_s, notice)
        )
        if not isinstance(result, GoneProof):
            raise TypeError(f"an agent answered with {result!r}")
        return result

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        key = KernelKey(kernel_id, attempt)
        await self._ask("forget", agent_id, lambda token: ForgetRequested(token, incarnation, key))

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """Kernels of acting agents have no output."""
        del agent_id, kernel_id, attempt, limit
        return LogPart(offset, b"", end=True)

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        """Kernels of acting agents use nothing that can be measured."""
        del agent_id, kernel_id, attempt
        return KernelUse(self._clock.now_ms())

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """Acting agents run no commands."""
        raise AgentRefused(agent_id=agent_id, problem=f"{kernel_id}/{attempt} takes no command {command} {terminal}")

    def connect(self, agent_id: AgentId, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        """Acting agents have no ports."""
        raise AgentRefused(agent_id=agent_id, problem=f"{kernel_id}/{attempt} does not listen on {port}")

    def connected(self, agent_id: AgentId) -> bool:
        """See the port."""
        return agent_id in self.all and self.all[agent_id].linked

    async def _ask(
        self, kind: str, agent_id: AgentId, event: Callable[[Token], Event]
    ) -> GoneProof | ImageReport | None:
        self.before(kind, agent_id)
        agent = self.all.get(agent_id)
        if agent is None:
            raise AgentUnreachable(agent_id=agent_id, problem="it has no link to this manager")
        return await agent.ask(kind, event)
