"""A fleet of fake agents behind the AgentGateway port, in one task.

All simulated operations share one event queue, so that the cost of a fleet is that of
its changes. An agent sends a heartbeat when its kernels change, and periodically.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from sokovan.agent.fake.event_queue import EventQueue
from sokovan.agent.fake.execution import FakeExecution
from sokovan.agent.fake.fake_agent import TOKEN, FakeAgent, FakeAgentTiming, FakeKernel
from sokovan.agent.fake.shape import FleetShape
from sokovan.agent.journal_records import KernelKey
from sokovan.agent.messages import CreateRequested, Event, ForgetRequested, StopRequested
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.records import Device
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable, GoneProof, ImageReport
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelExecution, KernelUse, LogPart
from sokovan.wire.frames import CreateKernel

# Enrols an agent with its devices and kernels, and returns its incarnation.
Admit: TypeAlias = Callable[[AgentInfo, Sequence[Device], Sequence[tuple[KernelId, int]]], Awaitable[int]]
# Takes the state of an agent from a heartbeat.
OnHeartbeat: TypeAlias = Callable[[AgentState, tuple[ImageReport, ...]], Awaitable[None]]

ENROLLING = 16
RETRY_S = 1.0


def _discard(_line: str) -> None:
    """The default log: discards lines."""


class FakeFleet:
    """The AgentGateway port over fake agents.

    Their state is lost with this object, as if every machine had lost power.
    """

    def __init__(
        self,
        clock: Clock,
        shape: FleetShape,
        *,
        admit: Admit,
        on_heartbeat: OnHeartbeat,
        timing: FakeAgentTiming | None = None,
        log: Callable[[str], None] = _discard,
    ) -> None:
        self._clock, self._admit, self._on_heartbeat, self._log = clock, admit, on_heartbeat, log
        self._timing = timing or FakeAgentTiming()
        self._queue = EventQueue(clock)
        devices = shape.devices()
        self._agents = {
            info.agent_id: FakeAgent(info, devices, self._queue, self._timing, changed=self._changed)
            for info in shape.agents()
        }
        self._to_observe: dict[AgentId, FakeAgent] = {}
        self._to_report: dict[AgentId, FakeAgent] = {}
        self._reports_queued: set[AgentId] = set()

    async def run(self) -> None:
        """Enrol every agent and simulate until cancelled."""
        waiting = deque(self._agents.values())
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(ENROLLING, len(waiting))):
                tasks.create_task(self._enrol(waiting))
            tasks.create_task(self._simulate())

    def connected(self, agent_id: AgentId) -> bool:
        """Whether the agent exists and was admitted."""
        return self.incarnation(agent_id) > 0

    def incarnation(self, agent_id: AgentId) -> int:
        """The incarnation that the agent was admitted as; 0 if it was not."""
        agent = self._agents.get(agent_id)
        return agent.incarnation if agent is not None else 0

    async def prepare_image(self, agent_id: AgentId, incarnation: int, image: str) -> ImageReport:
        """See the port; every image is ready."""
        return self._admitted(agent_id).image(incarnation, image)

    async def create_kernel(self, agent_id: AgentId, incarnation: int, launch: CreateKernel) -> None:
        """See the port."""
        self._request(agent_id, CreateRequested(TOKEN, incarnation, launch))

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
        """See the port; a fake kernel never resists."""
        key = KernelKey(kernel_id, attempt)
        result = self._request(agent_id, StopRequested(TOKEN, incarnation, key, grace_s, notice))
        if result is None:
            raise AgentUnreachable(agent_id=agent_id, problem="it did not answer")
        return result

    async def forget_kernel(self, agent_id: AgentId, incarnation: int, kernel_id: KernelId, attempt: int) -> None:
        """See the port."""
        self._request(agent_id, ForgetRequested(TOKEN, incarnation, KernelKey(kernel_id, attempt)))

    async def read_log(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, *, offset: int, limit: int
    ) -> LogPart:
        """See the port."""
        return self._admitted(agent_id).log(KernelKey(kernel_id, attempt), offset=offset, limit=limit)

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        """See the port; the figures follow from the slots and the running time."""
        return self._admitted(agent_id).use(KernelKey(kernel_id, attempt), now_ms=self._clock.now_ms())

    def execute(
        self, agent_id: AgentId, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool
    ) -> KernelExecution:
        """See the port."""
        del terminal  # input is echoed either way
        find = partial(self._running, agent_id, KernelKey(kernel_id, attempt))
        return FakeExecution(find, self._clock, command, notice=self._timing.output(agent_id, command))

    def connect(self, agent_id: AgentId, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        """Fake kernels listen on no port."""
        raise AgentRefused(agent_id=agent_id, problem=f"fake kernel {kernel_id} ({attempt}) does not listen on {port}")

    def _running(self, agent_id: AgentId, key: KernelKey) -> FakeKernel:
        return self._admitted(agent_id).running(key)

    def _admitted(self, agent_id: AgentId) -> FakeAgent:
        agent = self._agents.get(agent_id)
        if agent is None or agent.incarnation == 0:
            raise AgentUnreachable(agent_id=agent_id, problem="it is not a fake agent of this process")
        return agent

    def _request(self, agent_id: AgentId, event: Event) -> GoneProof | None:
        agent = self._admitted(agent_id)
        try:
            return agent.request(event)
        finally:
            if agent.is_report_due and agent_id not in self._reports_queued:
                self._reports_queued.add(agent_id)
                self._queue.after(self._timing.report_s, partial(self._report_due, agent))

    async def _enrol(self, waiting: deque[FakeAgent]) -> None:
        while waiting:
            agent = waiting.popleft()
            try:
                incarnation = await self._admit(agent.info, agent.devices, tuple(agent.table.kernels))
            except Exception as problem:  # noqa: BLE001  # an unavailable store is retried
                self._log(f"agent {agent.agent_id} could not be admitted: {problem!r}")
                waiting.append(agent)
                await self._clock.sleep(RETRY_S)
            else:
                agent.welcome(incarnation)
                self._beat(agent)

    async def _simulate(self) -> None:
        while True:
            for action in self._queue.due():
                action()
            changed, self._to_observe = self._to_observe, {}
            for agent_id, agent in changed.items():
                agent.observe()
                if agent.is_report_due:
                    self._to_report[agent_id] = agent
            due, self._to_report = self._to_report, {}
            # Together, as agents on machines of their own do: one that waits for the store delays no other.
            await asyncio.gather(*[self._report(agent) for agent in due.values()])
            await self._queue.wait()

    async def _report(self, agent: FakeAgent) -> None:
        try:
            await self._on_heartbeat(agent.heartbeat(), ())
        except Exception as problem:  # noqa: BLE001  # the next heartbeat repeats it
            self._log(f"a heartbeat of agent {agent.agent_id} was lost: {problem!r}")

    def _beat(self, agent: FakeAgent) -> None:
        """Send the periodic heartbeat."""
        self._to_report[agent.agent_id] = agent
        self._queue.wake()
        self._queue.after(self._timing.heartbeat_s, partial(self._beat, agent))

    def _report_due(self, agent: FakeAgent) -> None:
        self._reports_queued.discard(agent.agent_id)
        if agent.is_report_due:
            self._to_report[agent.agent_id] = agent

    def _changed(self, agent: FakeAgent) -> None:
        self._to_observe[agent.agent_id] = agent
        self._queue.wake()
