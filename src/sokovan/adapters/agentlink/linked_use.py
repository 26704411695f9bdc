"""Measurements of kernels over the links of agents."""

from __future__ import annotations

from abc import abstractmethod

from sokovan.adapters.agentlink.execution import LinkedStreams
from sokovan.adapters.agentlink.translation import use_of
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.runtime import KernelUse
from sokovan.wire.frames import MeasureKernel, UseFigures


class LinkedUse(LinkedStreams):
    """The UseGateway port, for any incarnation of an agent, beside its streams."""

    async def measure(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> KernelUse:
        """See the port."""
        return use_of(await self._measured(agent_id, MeasureKernel(kernel_id, attempt)))

    @abstractmethod
    async def _measured(self, agent_id: AgentId, command: MeasureKernel) -> UseFigures:
        """The figures of an agent. Raises AgentUnreachable, AgentRefused."""
