"""Many pretended agents in one task: what is due next happens next.

A thousand agents with ten thousand kernels cost what their changes cost. An agent
speaks when something of it has changed, and now and then so that it does not seem dead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from sokovan.adapters.fake_agents.event_queue import EventQueue
from sokovan.adapters.fake_agents.execution import FakeExecution
from sokovan.adapters.fake_agents.machine import KILLED, TERMINATED, FakeAgent, FakeKernel, FakePhase, Key
from sokovan.adapters.fake_agents.script import WORK_S, conduct_of
from sokovan.adapters.fake_agents.shape import FleetShape
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.records import Device
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageReport, ImageState
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelExecution, LogPart
from sokovan.wire.frames import CreateKernel

# Takes an agent in, with its devices and the kernels it answers for, and gives its incarnation.
Admit: TypeAlias = Callable[[AgentInfo, Sequence[Device], Sequence[tuple[KernelId, int]]], Awaitable[int]]
# Hears what an agent holds.
Heard: TypeAlias = Callable[[AgentState, tuple[ImageReport, ...]], Awaitable[None]]

ENROLLING = 16
RETRY_S = 1.0


def pretended_words(agent_id: AgentId, command: Sequence[str]) -> bytes:
    """What a pretended kernel says, so that nobody takes it for a real one."""
    return f"pretended: {agent_id} only acts as if it ran {list(command)}\n".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeAgentTiming:
    """How the agents act: how long things take them, and what their kernels say."""

    start_s: float = 0.05
    stop_s: float = 0.02
    work_s: float = WORK_S
    beat_s: float = 5.0
    words: Callable[[AgentId, Sequence[str]], bytes] = pretended_words


def _say_nothing(_line: str) -> None:
    """Where nobody listens."""


class FakeFleet:
    """The AgentGateway port for agents that there are not.

    What they hold is lost with this object, as if every machine had lost its power.
    """

    def __init__(
        self,
        clock: Clock,
        shape: FleetShape,
        *,
        admit: Admit,
        heard: Heard,
        manner: FakeAgentTiming | None = None,
        tell: Callable[[str], None] = _say_nothing,
    ) -> None:
        self._clock, self._admit, self._heard, self._tell = clock, admit, heard, tell
        self._manner = manner or FakeAgentTiming()
        devices = shape.devices()
        self._machines = {info.agent_id: FakeAgent(info, devices) for info in shape.agents()}
        self._timetable = EventQueue(clock)
        self._changed: dict[AgentId, FakeAgent] = {}

    async def run(self) -> None:
        """Enrol every agent, and act until cancelled."""
        waiting = deque(self._machines.values())
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(ENROLLING, len(waiting))):
                tasks.create_task(self._enrol(waiting))
            tasks.create_task(self._act())

    def connected(self, agent_id: AgentId) -> bool:
        """Whether there is such an agent, and it was admitted."""
        machine = self._machines.get(agent_id)
        return machine is not None and machine.incarnation > 0

    def incarnation(self, agent_id: AgentId) -> int:
        """The incarnation that the agent was admitted as; 0 if it was not."""
        machine = self._machines.get(agent_id)
        return machine.incarnation if machine is not None else 0

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port; every image is there."""
        self._machine(agent_id).require(incarnation)
        return ImageReport(image, ImageState.READY)

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        machine, conduct = self._machine(agent_id), conduct_of(launch.command, work_s=self._manner.work_s)
        if machine.create(incarnation, launch, conduct):
            key = Key(KernelId(launch.kernel_id), launch.attempt)
            self._timetable.after(self._manner.start_s, partial(self._start, machine, key))

    async def stop_kernel(
        self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int, *, grace_s: float
    ) -> GoneProof:
        """See the port; a pretended kernel does as it is told."""
        machine, key = self._machine(agent_id), Key(kernel_id, attempt)
        gone = machine.stop(incarnation, key)
        if not gone.gone:
            exit_code = TERMINATED if grace_s > 0 else KILLED
            self._timetable.after(self._manner.stop_s, partial(self._end, machine, key, exit_code))
        return gone

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        machine = self._machine(agent_id)
        if machine.forget(incarnation, Key(kernel_id, attempt)):
            self._note(machine)

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """See the port."""
        machine, key = self._machine(agent_id), Key(kernel_id, attempt)
        kernel = machine.kernels.get(key)
        words = self._manner.words(agent_id, kernel.launch.command) if kernel is not None else b""
        return machine.log(key, words, offset=offset, limit=limit)

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """See the port."""
        del terminal  # there is none, and what is typed is repeated all the same
        found = partial(self._running, agent_id, Key(kernel_id, attempt))
        return FakeExecution(found, self._clock, command, words=self._manner.words(agent_id, command))

    def _running(self, agent_id: AgentId, key: Key) -> FakeKernel:
        """A kernel to run a command in; one that is about to start will do."""
        kernel = self._machine(agent_id).kernels.get(key)
        if kernel is None or kernel.phase is FakePhase.EXITED:
            raise AgentRefused(agent_id=agent_id, problem=f"kernel {key.kernel_id} does not run [runtime-failure]")
        return kernel

    def _machine(self, agent_id: AgentId) -> FakeAgent:
        machine = self._machines.get(agent_id)
        if machine is None or machine.incarnation == 0:
            raise AgentUnreachable(agent_id=agent_id, problem="it is not among the pretended agents")
        return machine

    async def _enrol(self, waiting: deque[FakeAgent]) -> None:
        while waiting:
            machine = waiting.popleft()
            try:
                machine.incarnation = await self._admit(machine.info, machine.devices, tuple(machine.kernels))
            except Exception as problem:  # noqa: BLE001  # a store that is away comes back
                self._tell(f"agent {machine.info.agent_id} could not be admitted: {problem!r}")
                waiting.append(machine)
                await self._clock.sleep(RETRY_S)
            else:
                machine.sequence = 0
                self._beat(machine)

    async def _act(self) -> None:
        while True:
            for act in self._timetable.due():
                act()
            while self._changed:
                machine = self._changed.pop(next(iter(self._changed)))
                await self._speak(machine)
            await self._timetable.wait()

    async def _speak(self, machine: FakeAgent) -> None:
        try:
            await self._heard(machine.state(), ())
        except Exception as problem:  # noqa: BLE001  # the next heartbeat says it all again
            self._tell(f"a heartbeat of agent {machine.info.agent_id} was lost: {problem!r}")

    def _beat(self, machine: FakeAgent) -> None:
        self._note(machine)
        self._timetable.after(self._manner.beat_s, partial(self._beat, machine))

    def _start(self, machine: FakeAgent, key: Key) -> None:
        if not machine.start(key):
            return
        self._note(machine)
        conduct = machine.kernels[key].conduct
        if conduct.lasts_s is not None:
            self._timetable.after(conduct.lasts_s, partial(self._end, machine, key, conduct.exit_code))

    def _end(self, machine: FakeAgent, key: Key, exit_code: int) -> None:
        if machine.end(key, exit_code):
            self._note(machine)

    def _note(self, machine: FakeAgent) -> None:
        self._changed[machine.info.agent_id] = machine
        self._timetable.nudge()
