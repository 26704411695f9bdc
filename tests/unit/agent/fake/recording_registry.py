"""A registry that admits every agent and records its heartbeats."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.records import Device
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.agent_states import AgentState


class RecordingRegistry:
    """A registry for tests; each admission is another incarnation."""

    def __init__(self) -> None:
        self.admitted: dict[AgentId, tuple[AgentInfo, Sequence[Device], Sequence[tuple[KernelId, int]]]] = {}
        self.states: dict[AgentId, AgentState] = {}
        self.incarnation = 0
        self.heartbeats = 0
        self.failures: list[Exception] = []

    async def admit(self, info: AgentInfo, devices: Sequence[Device], kernels: Sequence[tuple[KernelId, int]]) -> int:
        if self.failures:
            raise self.failures.pop()
        self.admitted[info.agent_id] = (info, devices, kernels)
        self.incarnation += 1
        return self.incarnation

    async def on_heartbeat(self, state: AgentState, _images: tuple[ImageReport, ...]) -> None:
        if self.failures:
            raise self.failures.pop()
        self.heartbeats += 1
        self.states[state.agent_id] = state
