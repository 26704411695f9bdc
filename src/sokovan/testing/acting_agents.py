"""Agents that act out what a test says, with the judgement of real ones.

What an agent promises is decided by its own pure supervisor and kept in a journal;
only the machine and the way to it are acted. So a test may lose a request, an
answer, a heartbeat or a whole agent, and everything else stays true.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from itertools import count

from sokovan.agent.journal_records import JournalState, KernelKey, replayed
from sokovan.agent.kernel_table import KernelTable, Token, reports, restored
from sokovan.agent.messages import (
    CreateRequested,
    Event,
    ForgetInstruction,
    ForgetRequested,
    ImageProgressed,
    Instruction,
    LinkClosed,
    LinkOpened,
    Observed,
    PrepareInstruction,
    PrepareRequested,
    SendAnswer,
    SendHeartbeat,
    SendProblem,
    StartFinished,
    StartInstruction,
    StopInstruction,
    StopRequested,
)
from sokovan.agent.supervisor import step
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.records import Device
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.agent_registry import AgentAdmission, AgentRegistry, AgentRejection, Arrival
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageReport, ImageState
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelExecution, KernelState, LogPart, Observation
from sokovan.wire.frames import CreateKernel

CAPACITY: Mapping[str, int] = {"cpu": 8000, "mem": 32 << 30, "cuda.device": 4}
_STOPPED, _KILLED = 143, 137


class Fault(StrEnum):
    """What may happen to a request."""

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


@dataclass(slots=True)
class Script:
    """What an agent does by itself.

    `exits` gives the exit code of a kernel that ends as soon as it begins, or None. A
    `slow` start waits for `begin`. An image in `pulls` waits for `pulled`; one in
    `broken` fails with these words. A `stubborn` kernel ends only by force.
    """

    exits: Callable[[CreateKernel], int | None] = lambda _launch: None
    slow: bool = False
    start_problem: str = ""
    pulls: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)
    stubborn: bool = False


class ActingAgent:
    """One agent and its machine."""

    def __init__(self, agent_id: str, *, slots: Mapping[str, int], clock: Clock, registry: AgentRegistry) -> None:
        self.agent_id = AgentId(agent_id)
        self.script = Script()
        self.faults: dict[str, Fault] = {}
        self.labels: dict[str, str] = {}
        self.linked = self.speaking = False
        self.machine: dict[KernelKey, Acted] = {}
        self.asked: Counter[str] = Counter()
        self.started: Counter[KernelKey] = Counter()
        self._slots, self._clock, self._registry = ResourceSlot(slots), clock, registry
        self._devices = tuple(Device(f"gpu{number}", "cuda.device") for number in range(slots.get("cuda.device", 0)))
        self._memory = JournalState()
        self._table = self._fresh()
        self._numbers, self._sequence = count(1), 0
        self._waiting: dict[Token, asyncio.Future[GoneProof | ImageReport | None]] = {}
        self._news = False

    @property
    def incarnation(self) -> int:
        """The one that it was welcomed as."""
        return self._table.incarnation

    def running(self) -> list[str]:
        """The kernels that run on the machine, by id."""
        return sorted(key.kernel_id for key, acted in self.machine.items() if acted.state is not KernelState.EXITED)

    async def connect(self) -> AgentAdmission | AgentRejection:
        """Dial the manager: with the incarnation it has, or for a new one."""
        self.look()
        verdict = await self._registry.admit(
            Arrival(
                agent_id=self.agent_id,
                incarnation=self.incarnation,
                slots=self._slots,
                devices=self._devices,
                labels=dict(self.labels),
                kernels=tuple((report.kernel_id, report.attempt) for report in reports(self._table)),
            )
        )
        if isinstance(verdict, AgentAdmission):
            self.linked = self.speaking = True
            self._happens(LinkOpened(1, verdict.incarnation))
            await self.beat()
        return verdict

    async def beat(self) -> None:
        """A heartbeat, if anybody can hear it."""
        self._news = False
        if self.linked and self.speaking:
            self._sequence += 1
            state = AgentState(self.agent_id, self.incarnation, self._sequence, reports(self._table))
            await self._registry.heard(self.agent_id, state, tuple(self._table.images.values()))

    def goes_silent(self) -> None:
        """Nothing reaches it, and nothing comes from it; its kernels go on."""
        self.linked = self.speaking = False
        self._happens(LinkClosed(1))
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(AgentUnreachable(agent_id=self.agent_id, problem="the link was closed"))
        self._waiting.clear()

    async def restart(self, *, journal_lost: bool = False) -> AgentAdmission | AgentRejection:
        """The process ends and comes back; its machine has gone on."""
        self.goes_silent()
        self._memory = JournalState() if journal_lost else self._memory
        self._table = restored(self._fresh(), self._memory)
        return await self.connect()

    def loses_its_machine(self) -> None:
        """Everything on it is gone, with no trace."""
        self.goes_silent()
        self.machine.clear()
        self._memory = JournalState()
        self._table = self._fresh()

    async def begin(self, kernel_id: str) -> None:
        """A slow start is over."""
        key, acted = self._acted(kernel_id)
        acted.state = KernelState.RUNNING
        self._happens(StartFinished(key))
        await self._seen()

    async def ends(self, kernel_id: str, code: int = 0, reason: str = "") -> None:
        """A kernel ends by itself."""
        _, acted = self._acted(kernel_id)
        acted.state, acted.exit_code, acted.reason = KernelState.EXITED, code, reason
        await self._seen()

    async def pulled(self, image: str, problem: str = "", *, so_far: str = "") -> None:
        """A pull is over, well or not; or only so far."""
        if so_far:
            report = ImageReport(image, ImageState.PULLING, so_far)
        else:
            self.script.pulls.discard(image)
            report = ImageReport(image, ImageState.FAILED if problem else ImageState.READY, problem)
        self._happens(ImageProgressed(report))
        await self._flush()

    async def ask(self, kind: str, event: Callable[[Token], Event]) -> GoneProof | ImageReport | None:
        """A request from the manager."""
        self.asked[kind] += 1
        fault = self.faults.get(kind)
        if not self.linked or fault is Fault.REQUEST_LOST:
            raise AgentUnreachable(agent_id=self.agent_id, problem="it did not answer in time")
        if fault is Fault.HANGS:
            await asyncio.get_running_loop().create_future()
        token = Token(1, next(self._numbers))
        answer: asyncio.Future[GoneProof | ImageReport | None] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        try:
            self._happens(event(token))
            await self._flush()
            if fault is Fault.ANSWER_LOST:
                raise AgentUnreachable(agent_id=self.agent_id, problem="its answer was lost")
            return await answer
        finally:
            self._waiting.pop(token, None)
            answer.cancel()

    def _fresh(self) -> KernelTable:
        units = {device.device_id: device.units for device in self._devices}
        return KernelTable(self.agent_id, self._slots, units)

    def _acted(self, kernel_id: str) -> tuple[KernelKey, Acted]:
        return next((key, acted) for key, acted in self.machine.items() if key.kernel_id == kernel_id)

    async def _seen(self) -> None:
        self.look()
        await self._flush()

    async def _flush(self) -> None:
        if self._news:
            await self.beat()

    def look(self) -> None:
        """See what the machine shows."""
        observations = tuple(
            Observation(key.kernel_id, key.attempt, acted.state, exit_code=acted.exit_code, reason=acted.reason)
            for key, acted in sorted(self.machine.items())
        )
        self._happens(Observed(observations, begun=self._table.tick, now_ms=self._clock.now_ms()))

    def _happens(self, event: Event) -> None:
        done = step(self._table, event)
        self._memory = replayed(self._memory, done.records)
        self._table = done.table
        for instruction in done.instructions:
            self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case StartInstruction():
                self._start(instruction.launch)
            case StopInstruction():
                self._stop(instruction.key, instruction.grace_s)
            case ForgetInstruction():
                self.machine.pop(instruction.key, None)
            case PrepareInstruction():
                self._prepare(instruction.image)
            case SendAnswer():
                self._answer(instruction.token, instruction.result, None)
            case SendProblem():
                problem = f"{instruction.message} [{instruction.code}]"
                refusal = AgentRefused(agent_id=self.agent_id, problem=problem, reason=instruction.code)
                self._answer(instruction.token, None, refusal)
            case SendHeartbeat():
                self._news = True

    def _answer(self, token: Token, word: GoneProof | ImageReport | None, problem: AgentRefused | None) -> None:
        answer = self._waiting.get(token)
        if answer is None or answer.done():
            return
        if problem is not None:
            answer.set_exception(problem)
        else:
            answer.set_result(word)

    def _start(self, launch: CreateKernel) -> None:
        key = KernelKey.of(launch)
        if self.script.start_problem:
            self._happens(StartFinished(key, problem=self.script.start_problem, code="runtime-failure"))
            return
        self.started[key] += 1
        acted = self.machine[key] = Acted(launch, KernelState.STARTING)
        if self.script.slow:
            return
        code = self.script.exits(launch)
        acted.state = KernelState.RUNNING if code is None else KernelState.EXITED
        acted.exit_code = code
        self._happens(StartFinished(key))
        self.look()

    def _stop(self, key: KernelKey, grace_s: float) -> None:
        acted = self.machine.get(key)
        if acted is None or acted.state is KernelState.EXITED or (self.script.stubborn and grace_s > 0):
            return
        acted.state, acted.exit_code = KernelState.EXITED, _STOPPED if grace_s > 0 else _KILLED
        self.look()

    def _prepare(self, image: str) -> None:
        if image in self.script.broken:
            report = ImageReport(image, ImageState.FAILED, self.script.broken[image])
        else:
            report = ImageReport(image, ImageState.PULLING if image in self.script.pulls else ImageState.READY)
        self._happens(ImageProgressed(report))


class ActingAgents:
    """The AgentGateway port over acting agents. `before` sees each request go out."""

    def __init__(self, registry: AgentRegistry, clock: Clock) -> None:
        self._registry, self._clock = registry, clock
        self.all: dict[AgentId, ActingAgent] = {}
        self.before: Callable[[str, AgentId], None] = lambda _kind, _agent: None

    async def join(self, agent_id: str, *, slots: Mapping[str, int] = CAPACITY) -> ActingAgent:
        """A new machine, whose agent enrols."""
        agent = ActingAgent(agent_id, slots=slots, clock=self._clock, registry=self._registry)
        self.all[agent.agent_id] = agent
        await agent.connect()
        return agent

    async def beat(self) -> None:
        """Everybody looks at their machine and sends a heartbeat, if they can."""
        for agent in self.all.values():
            agent.look()
            await agent.beat()

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port."""
        word = await self._ask("prepare", agent_id, lambda token: PrepareRequested(token, incarnation, image))
        if not isinstance(word, ImageReport):
            raise TypeError(f"an agent answered with {word!r}")
        return word

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        await self._ask("create", agent_id, lambda token: CreateRequested(token, incarnation, launch))

    async def stop_kernel(
        self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int, *, grace_s: float
    ) -> GoneProof:
        """See the port."""
        key = KernelKey(kernel_id, attempt)
        word = await self._ask("stop", agent_id, lambda token: StopRequested(token, incarnation, key, grace_s))
        if not isinstance(word, GoneProof):
            raise TypeError(f"an agent answered with {word!r}")
        return word

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        key = KernelKey(kernel_id, attempt)
        await self._ask("forget", agent_id, lambda token: ForgetRequested(token, incarnation, key))

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """Nothing is said on acting machines."""
        del agent_id, kernel_id, attempt, limit
        return LogPart(offset, b"", end=True)

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """Nothing can be run on acting machines."""
        raise AgentRefused(agent_id=agent_id, problem=f"{kernel_id}/{attempt} takes no command {command} {terminal}")

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
