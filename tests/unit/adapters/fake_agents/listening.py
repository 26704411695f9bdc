"""Somebody who admits every agent and remembers what it says."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.records import Device
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.agent_states import AgentState


class Listening:
    """A registry for tests; each admission is another incarnation."""

    def __init__(self) -> None:
        self.admitted: dict[AgentId, tuple[AgentInfo, Sequence[Device], Sequence[tuple[KernelId, int]]]] = {}
        self.states: dict[AgentId, AgentState] = {}
        self.incarnation = 0
        self.beats = 0
        self.trouble: list[Exception] = []

    async def admit(self, info: AgentInfo, devices: Sequence[Device], kernels: Sequence[tuple[KernelId, int]]) -> int:
        if self.trouble:
            raise self.trouble.pop()
        self.admitted[info.agent_id] = (info, devices, kernels)
        self.incarnation += 1
        return self.incarnation

    async def hear(self, state: AgentState, _images: tuple[ImageReport, ...]) -> None:
        if self.trouble:
            raise self.trouble.pop()
        self.beats += 1
        self.states[state.agent_id] = state
